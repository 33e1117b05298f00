package unixsock

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func uid() string { return strconv.Itoa(os.Geteuid()) }

// manager is a fake service manager; messages arrive one by one.
type manager struct{ conn *net.UnixConn }

func startManager(t *testing.T, name string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return &manager{conn}
}

func (m *manager) message(t *testing.T) string {
	t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestNotify(t *testing.T) {
	f := func(socket string) {
		t.Helper()
		m := startManager(t, socket)
		g := func(want string, states ...string) {
			t.Helper()
			if err := Notify(states...); err != nil {
				t.Fatal(err)
			}
			if got := m.message(t); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		g("READY=1\nSTATUS=64 of 64 warm", Ready, Status("64 of 64 warm"))
		g("STATUS=one line READY=1", Status("one line\nREADY=1"))
		g("WATCHDOG=1", Watchdog)
		g("STOPPING=1", Stopping)
	}
	f(filepath.Join(t.TempDir(), "notify"))
	f(fmt.Sprintf("@unixsock-test-%d", os.Getpid()))
}

func TestNotifyWithoutManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"relative", "vsock:2:1", filepath.Join(t.TempDir(), "gone")} {
		t.Setenv("NOTIFY_SOCKET", bad)
		if err := Notify(Ready); err == nil {
			t.Errorf("NOTIFY_SOCKET=%s: no error", bad)
		}
	}
}

func TestNotifyDoesNotWaitForAManagerThatDoesNotRead(t *testing.T) {
	startManager(t, filepath.Join(t.TempDir(), "notify"))
	begun := time.Now()
	for range 10000 {
		if err := Notify(Watchdog); err != nil {
			if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took > 10*time.Second {
				t.Fatalf("%v after %v", err, took)
			}
			return
		}
	}
	t.Fatal("the queue never filled")
}

// When READY=1 arrives the socket takes connections.
func TestCaseL1ReadyAfterListen(t *testing.T) {
	m := startManager(t, filepath.Join(t.TempDir(), "notify"))
	for range 100 {
		path := filepath.Join(sharedDir(t), "s")
		listening := make(chan *Listener, 1)
		go func() {
			l, err := Listen(path, Options{})
			if err == nil {
				err = Notify(Ready)
			}
			if err != nil {
				t.Error(err)
			}
			listening <- l
		}()
		if got := m.message(t); got != Ready {
			t.Fatalf("got %q", got)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		(<-listening).Close()
	}
}

func TestWatchdogInterval(t *testing.T) {
	f := func(usec, pid string, want time.Duration) {
		t.Helper()
		t.Setenv("WATCHDOG_USEC", usec)
		t.Setenv("WATCHDOG_PID", pid)
		if got := WatchdogInterval(); got != want {
			t.Fatalf("WATCHDOG_USEC=%q WATCHDOG_PID=%q: got %v, want %v", usec, pid, got, want)
		}
	}
	self := strconv.Itoa(os.Getpid())
	f("", "", 0)
	f("30000000", "", 15*time.Second)
	f("30000000", self, 15*time.Second)
	f("30000000", "1", 0)
	f("-5", self, 0)
	f("rubbish", self, 0)
	f("9223372036854775807", self, 0)
}

func TestInherited(t *testing.T) {
	dir := sharedDir(t)
	f := func(env []string, want string, names ...string) {
		t.Helper()
		// The shell puts its own pid, which exec keeps, into LISTEN_PID.
		cmd := exec.Command("sh", "-c", `LISTEN_PID=${PID:-$$} exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), append(env, "UNIXSOCK_TEST_ROLE=inherit")...)
		var paths []string
		for i := range 2 {
			path := filepath.Join(dir, strconv.Itoa(i))
			l := mustListen(t, path, Options{})
			file, err := l.File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			defer l.Close()
			cmd.ExtraFiles = append(cmd.ExtraFiles, file)
			paths = append(paths, path)
		}
		c := start(t, cmd)
		c.expect(t, want)
		for i, name := range names {
			if got := reached(t, paths[i]); got != name {
				t.Fatalf("listener %d answers %q, want %q", i, got, name)
			}
			if _, err := os.Lstat(paths[i]); err != nil {
				t.Fatalf("the path is not the heir's to remove: %v", err)
			}
		}
	}
	f([]string{"LISTEN_FDS=2", "LISTEN_FDNAMES=control:data"}, `2 listeners, LISTEN_FDS=""`, "control", "data")
	f([]string{"LISTEN_FDS=2"}, `2 listeners, LISTEN_FDS=""`, "unknown", "unknown")
	f([]string{"LISTEN_FDS=2", "PID=1"}, `0 listeners, LISTEN_FDS=""`)
	f([]string{"LISTEN_FDS=x"}, `inherited sockets: LISTEN_FDS="x" is no count`)
	f([]string{"LISTEN_FDS=2", "LISTEN_FDNAMES=one"}, `inherited sockets: LISTEN_FDNAMES="one" names 1 of 2`)
}

func TestInheritedFromSystemd(t *testing.T) {
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("systemd-socket-activate is not installed")
	}
	path := filepath.Join(sharedDir(t), "s")
	cmd := exec.Command(activate, "-l", path, "--fdname=control", "-E", "UNIXSOCK_TEST_ROLE=inherit", os.Args[0])
	c := start(t, cmd)
	var conn net.Conn // the first one starts the child
	for deadline := time.Now().Add(30 * time.Second); conn == nil; time.Sleep(5 * time.Millisecond) {
		if conn, err = net.Dial("unix", path); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer conn.Close()
	c.expect(t, `1 listeners, LISTEN_FDS=""`)
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "control" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestInheritRefusesWhatIsNoListener(t *testing.T) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inheritOne(fd, "null"); err == nil {
		t.Fatal("no error")
	}
}
