package unixsock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain lets the test binary stand in for the daemons of the tests.
func TestMain(m *testing.M) {
	switch role := os.Getenv("UNIXSOCK_TEST_ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "listen":
		if _, err := Listen(os.Getenv("UNIXSOCK_TEST_ARG"), Options{}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("listening")
		select {}
	case "inherit":
		os.Exit(reportInherited())
	default:
		panic("unknown role " + role)
	}
}

// reportInherited names every listener and answers one connection on each with that name.
func reportInherited() int {
	all, err := Inherited()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%d listeners, LISTEN_FDS=%q\n", len(all), os.Getenv("LISTEN_FDS"))
	for _, one := range all {
		conn, err := one.Listener.Accept()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_, _ = io.WriteString(conn, one.Name)
		conn.Close()
		one.Listener.Close()
	}
	return 0
}

type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, role, arg string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNIXSOCK_TEST_ROLE="+role, "UNIXSOCK_TEST_ARG="+arg)
	return start(t, cmd)
}

func start(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(func() { c.kill(t) })
	// A child that says nothing must not hang the test.
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	return c
}

func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("child ended, want %q: %v", want, c.lines.Err())
	}
	if got := c.lines.Text(); got != want {
		t.Fatalf("child says %q, want %q", got, want)
	}
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
