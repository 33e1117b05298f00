package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is rtctl as a process of its own, against f.
func process(t *testing.T, f *fake, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RTCTL_TEST_RUN=1", "RTD_SOCKET="+f.socket)
	return cmd
}

// waitClean waits until no watch is open on the daemon any more.
func (f *fake) waitClean(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		f.mu.Lock()
		n := f.watchers
		f.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are still open", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCaseN1ClosedPipeIsNoFailure(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	g := func(args ...string) {
		t.Helper()
		cmd := process(t, f, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 2 {
			if !lines.Scan() {
				t.Fatalf("%q ended early: %s", args, &stderr)
			}
			if args[len(args)-1] == "json" && !json.Valid(lines.Bytes()) {
				t.Fatalf("%q: not a line of JSON: %s", args, lines.Text())
			}
		}
		closed := time.Now()
		out.Close()
		err = cmd.Wait()
		if took := time.Since(closed); took > 10*time.Second {
			t.Fatalf("%q went on for %v", args, took)
		}
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if err != nil && status.Signal() != syscall.SIGPIPE {
			t.Fatalf("%q: %v", args, err)
		}
		if stderr.Len() > 0 {
			t.Fatalf("%q says %s", args, &stderr)
		}
		f.waitClean(t)
	}
	g("stats", "--watch", "--interval", "300ms", "-o", "json")
	g("stats", "--watch", "--interval", "300ms")
}

func TestWriterThatBreaksIsNoFailure(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	var stderr bytes.Buffer
	if status := execute(t.Context(), []string{"--endpoint", f.socket, "stats", "--watch"}, brokenPipe{}, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("status %d, stderr %q", status, &stderr)
	}
	f.waitClean(t)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestCaseK8ProxiesAreIgnored(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	var caught atomic.Int64
	go func() {
		for {
			conn, err := proxy.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			conn.Close()
		}
	}()
	g := func(args ...string) {
		t.Helper()
		cmd := process(t, f, args...)
		for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "GRPC_PROXY"} {
			value := "http://" + proxy.Addr().String()
			cmd.Env = append(cmd.Env, name+"="+value, strings.ToLower(name)+"="+value)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		if n := caught.Load(); n != 0 {
			t.Fatalf("%q: %d connections to the proxy", args, n)
		}
	}
	g("stats")
	g("pool", "list")
	g("--endpoint", "unix://"+f.socket, "status")
}

// The daemon's own stop ends a watch with status 1 and one line.
func TestCaseD6WatchEndsWithTheDaemon(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	cmd := process(t, f, "stats", "--watch", "--interval", "1h", "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("no first line: %s", &stderr)
	}
	stopped := time.Now()
	f.server.Stop()
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if took := time.Since(stopped); took > 20*time.Second {
		t.Fatalf("took %v", took)
	}
	if status := cmd.ProcessState.ExitCode(); status != exitFailed {
		t.Fatalf("status %d, want %d", status, exitFailed)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, f.socket) {
		t.Fatalf("stderr is not one line naming the socket: %q", text)
	}
}

func TestInterruptEndsAWatchWell(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := process(t, f, "stats", "--watch", "--interval", "1h")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if !lines.Scan() {
			t.Fatalf("no first line: %s", &stderr)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.Contains(lines.Text(), "\x1b") {
				t.Fatalf("an escape where there is no terminal: %q", lines.Text())
			}
		}
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Fatalf("%v: %v, stderr %q", signal, err, &stderr)
		}
		f.waitClean(t)
	}
}

// A drain that is interrupted says that it goes on.
func TestInterruptedDrain(t *testing.T) {
	f := newFake(warmPool())
	f.stuck, f.drain = true, f.drain[:1]
	serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	var stdout, stderr bytes.Buffer
	status := execute(ctx, []string{"--endpoint", f.socket, "drain", "--timeout", "3s"}, &stdout, &stderr)
	if status != exitFailed || !strings.Contains(stderr.String(), "goes on") {
		t.Fatalf("status %d, stderr %q", status, &stderr)
	}
	if f.grace != 3*time.Second {
		t.Fatalf("the daemon got the timeout %v", f.grace)
	}
}

func TestDrainLeavesTheGraceToTheDaemon(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	g := func(want time.Duration, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if status := execute(t.Context(), append([]string{"--endpoint", f.socket, "drain"}, args...), &out, &out); status != 0 {
			t.Fatalf("status %d: %s", status, &out)
		}
		if f.grace != want {
			t.Fatalf("%q: the daemon got %v, want %v", args, f.grace, want)
		}
	}
	g(-1)
	g(0, "--timeout", "0")
	g(90*time.Second, "--timeout", "90s")
}
