package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// rtctl is a command of its own process against p.
func (p *process) rtctl(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=rtctl", "RTD_SOCKET="+p.socket)
	return cmd
}

// asNobody makes cmd another user's. The binary is in a directory that only its owner may enter; /proc leads past that.
func asNobody(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("acting as another user takes root")
	}
	cmd.Path = "/proc/self/exe"
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// expect runs cmd and compares its exit code. It returns what cmd wrote.
func expect(t *testing.T, cmd *exec.Cmd, code int) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q: exit code %d, want %d\n%s%s", cmd.Args[1:], got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// openDir is a directory that everybody may enter and that is short enough for a socket.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rtd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startAt is startProcess with the control socket at path.
func startAt(t *testing.T, path string, env []string, args ...string) *process {
	t.Helper()
	p := startProcess(t, env, append(args, "--socket", path)...)
	p.socket = path
	return p
}

func TestCaseD1DrainReportsWhatItForced(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	f := func(timeout time.Duration, args ...string) string {
		t.Helper()
		p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "0")...)
		var clients []*wiretest.Client
		for range 2 {
			c := wiretest.Connect(t, p.listen)
			c.ExpectText(wiretest.SessionCreated)
			clients = append(clients, c)
		}
		begun := time.Now()
		out, _ := expect(t, p.rtctl(append(args, "drain", "--timeout", timeout.String())...), 4)
		if took := time.Since(begun); took < timeout || took > timeout+1900*time.Millisecond {
			t.Errorf("rtctl drain --timeout %v took %v", timeout, took)
		}
		for _, c := range clients {
			c.ExpectClose(1001)
		}
		return out
	}
	if out := f(3 * time.Second); !strings.Contains(out, "0 ended, 2 forced") {
		t.Errorf("the report is %q", out)
	}
	var doc struct {
		State string
		Drain struct{ Remaining, Ended, Forced int }
	}
	if err := json.Unmarshal([]byte(f(200*time.Millisecond, "-o", "json")), &doc); err != nil || doc.State != "drained" || doc.Drain.Forced != 2 || doc.Drain.Ended != 0 || doc.Drain.Remaining != 0 {
		t.Errorf("the document is %+v: %v", doc, err)
	}
}

func TestDrainWithoutSessionsAndResume(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up)...)
	out, _ := expect(t, p.rtctl("drain"), 0)
	if !strings.Contains(out, "0 forced") {
		t.Errorf("%q", out)
	}
	if status, body := p.get("/readyz"); status != 503 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	expect(t, p.rtctl("resume"), 0)
	if status, body := p.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	wiretest.Connect(t, p.listen).ExpectText(wiretest.SessionCreated)
}

func TestCaseD6AWatchDoesNotHoldUpAStop(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up)...)
	watch := p.rtctl("stats", "--watch", "--interval", "1h", "-o", "json")
	var stderr bytes.Buffer
	watch.Stderr = &stderr
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("no first line: %s", &stderr)
	}
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	_ = watch.Wait()
	if code := watch.ProcessState.ExitCode(); code != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "stopping") {
		t.Errorf("rtctl ended with %d and %q", code, &stderr)
	}
}

func TestCaseK1RestartAfterAKill(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	path := filepath.Join(openDir(t), "s")
	p := startAt(t, path, nil, upstreamArgs(up)...)
	p.signal(syscall.SIGKILL)
	<-p.exited
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("nothing stale to replace: %v", err)
	}
	if _, stderr := expect(t, p.rtctl("status"), 1); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, path) {
		t.Errorf("without a daemon rtctl says %q", stderr)
	}
	begun := time.Now()
	expect(t, startAt(t, path, nil, upstreamArgs(up)...).rtctl("pool", "list"), 0)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("rtctl works after %v", took)
	}
}

func TestCaseK3AnExitLeavesTheSuccessorsSocket(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	path := filepath.Join(openDir(t), "s")
	a := startAt(t, path, nil, upstreamArgs(up)...)
	c := wiretest.Connect(t, a.listen)
	c.ExpectText(wiretest.SessionCreated)
	a.signal(syscall.SIGTERM) // and drains for as long as the client stays
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b := startAt(t, path, nil, upstreamArgs(up)...)
	c.Close()
	a.expectExit(0)
	out, _ := expect(t, b.rtctl("status", "-o", "json"), 0)
	if want := fmt.Sprintf(`"pid": %d,`, b.cmd.Process.Pid); !strings.Contains(out, want) {
		t.Errorf("no %s in %s", want, out)
	}
	// As long as a daemon answers, a second one at the same path is an error.
	third := exec.Command(os.Args[0], upstreamArgs(up, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--socket", path)...)
	third.Env = append(os.Environ(), "RTD_TEST_MAIN=1")
	if _, stderr := expect(t, third, 1); !strings.Contains(stderr, path) {
		t.Errorf("the third says %q", stderr)
	}
	expect(t, b.rtctl("status"), 0)
}

func TestCaseK5TheSocketIsNeverWiderThanConfigured(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	allowed := os.FileMode(0o600)
	if _, err := user.LookupGroup("rtd"); err == nil {
		allowed = 0o660
	}
	path := filepath.Join(openDir(t), "s")
	var seen, wide atomic.Int64
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			if info, err := os.Lstat(path); err == nil {
				seen.Add(1)
				if info.Mode().Perm()&^allowed != 0 {
					wide.Add(1)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	old := syscall.Umask(0)
	p := startAt(t, path, nil, upstreamArgs(up)...)
	syscall.Umask(old)
	for deadline := time.Now().Add(promptly); seen.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	<-watched
	if seen.Load() == 0 || wide.Load() != 0 {
		t.Errorf("wider than %v in %d of %d looks", allowed, wide.Load(), seen.Load())
	}
	if _, stderr := expect(t, asNobody(t, p.rtctl("stats")), 1); !strings.Contains(stderr, "no access to rtd at "+path) {
		t.Errorf("nobody is told %q", stderr)
	}
}

func TestCaseK8ProxyVariablesAreIgnored(t *testing.T) {
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	var caught atomic.Int64
	go func() {
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			conn.Close()
		}
	}()
	var env []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		value := "http://" + trap.Addr().String()
		env = append(env, name+"="+value, strings.ToLower(name)+"="+value)
	}
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, env, upstreamArgs(up)...)
	cmd := p.rtctl("stats")
	cmd.Env = append(cmd.Env, env...)
	expect(t, cmd, 0)
	wiretest.Connect(t, p.listen).ExpectText(wiretest.SessionCreated)
	if n := caught.Load(); n != 0 {
		t.Errorf("%d connections to the proxy", n)
	}
}

// footprint is what p holds: descriptors and goroutines.
func (p *process) footprint() (files, goroutines int) {
	p.t.Helper()
	out, _ := expect(p.t, p.rtctl("stats", "-o", "json"), 0)
	var doc struct{ Memory struct{ Goroutines int } }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		p.t.Fatal(err)
	}
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip("no /proc")
	}
	return len(list), doc.Memory.Goroutines
}

func TestCaseN1AClosedPipeEndsAWatch(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "0")...)
	files, goroutines := p.footprint()
	for range 3 {
		watch := p.rtctl("stats", "--watch", "--interval", "200ms", "-o", "json")
		var stderr bytes.Buffer
		watch.Stderr = &stderr
		out, err := watch.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); len(lines.Bytes()) == 0 && lines.Scan(); {
			if !json.Valid(lines.Bytes()) {
				t.Fatalf("not a line of JSON: %s", lines.Text())
			}
		}
		closed := time.Now()
		out.Close()
		_ = watch.Wait()
		status := watch.ProcessState.Sys().(syscall.WaitStatus)
		if took := time.Since(closed); took > 10*time.Second || watch.ProcessState.ExitCode() != 0 && status.Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
			t.Errorf("%v after %v: %s", watch.ProcessState, took, &stderr)
		}
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		nowFiles, nowGoroutines := p.footprint()
		if nowFiles <= files+5 && nowGoroutines <= goroutines+5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors and %d goroutines, before %d and %d", nowFiles, nowGoroutines, files, goroutines)
		}
	}
}
