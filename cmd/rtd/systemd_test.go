package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const units = "../../systemd/"

// manager is a fake service manager.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func startManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(openDir(t), "notify")}
	var err error
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: m.path}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.conn.Close() })
	return m
}

// message returns the next one, "" when none comes in time.
func (m *manager) message(within time.Duration) string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		m.t.Fatal(err)
	}
	return string(b[:n])
}

// await waits for a message that holds text and fails at one that holds forbidden.
func (m *manager) await(text, forbidden string) {
	m.t.Helper()
	for {
		got := m.message(10 * time.Second)
		switch {
		case got == "":
			m.t.Fatalf("no %q within 10 s", text)
		case forbidden != "" && strings.Contains(got, forbidden):
			m.t.Fatalf("%q before %q", got, text)
		case strings.Contains(got, text):
			return
		}
	}
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestCaseL1ReadyMeansConnectable(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { _, _ = c.TryReadFrame() }) // which is never ready
	reached := 0
	for range 5 {
		m := startManager(t)
		listen, admin, socket := freePort(t), freePort(t), filepath.Join(openDir(t), "s")
		cmd := exec.Command(os.Args[0], upstreamArgs(up, "--listen", listen, "--admin", admin, "--socket", socket)...)
		cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1", "NOTIFY_SOCKET="+m.path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		m.await("READY=1", "")
		for range 20 {
			for network, addr := range map[string]string{"tcp": listen, "unix": socket} {
				conn, err := net.Dial(network, addr)
				if err != nil {
					t.Error(err)
					continue
				}
				conn.Close()
				reached++
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		m.await("STOPPING=1", "READY=1")
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if reached != 200 {
		t.Errorf("%d of 200 connections", reached)
	}
}

func TestCaseL1NotReadyOnABusyPort(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	f := func(listen, admin, socket string) {
		t.Helper()
		m := startManager(t)
		cmd := exec.Command(os.Args[0], upstreamArgs(up, "--listen", listen, "--admin", admin, "--socket", socket)...)
		cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1", "NOTIFY_SOCKET="+m.path)
		if _, stderr := expect(t, cmd, 1); strings.Count(stderr, "\n") != 1 {
			t.Errorf("stderr %q", stderr)
		}
		if got := m.message(time.Millisecond); got != "" {
			t.Errorf("the manager was told %q", got)
		}
	}
	free, busy := "127.0.0.1:0", up.Addr()
	f(busy, free, filepath.Join(openDir(t), "s"))
	f(free, busy, filepath.Join(openDir(t), "s"))
	f(free, free, filepath.Join(openDir(t), "missing", "too", "s"))
}

func TestTheManagerIsKeptInformed(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	m := startManager(t)
	p := startProcess(t, []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=200000"}, upstreamArgs(up, "--pool-size", "3")...)
	m.await("STATUS=3 of 3 warm, 0 sessions\nWATCHDOG=1", "STOPPING=1")
	c := wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
	m.await("STATUS=3 of 3 warm, 1 session\n", "STOPPING=1")
	p.signal(syscall.SIGTERM)
	m.await("STOPPING=1", "")
	m.await("STATUS=draining, 1 session left\n", "")
	m.await("WATCHDOG=1", "") // a drain may outlast the watchdog's patience
	c.SendClose(1000, "")
	c.ExpectClose(1000)
	c.Close()
	p.expectExit(0)
}

func TestSocketActivation(t *testing.T) {
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("systemd-socket-activate is not installed")
	}
	up := wiretest.NewUpstream(t, wiretest.Ready)
	m := startManager(t)
	listen, admin, socket := freePort(t), freePort(t), filepath.Join(openDir(t), "s")
	args := []string{"-l", listen, "-l", socket, "-l", admin, "--fdname=data:control:admin", "-E", "RTD_TEST_MAIN=1", "-E", "NOTIFY_SOCKET=" + m.path}
	args = append(append(args, os.Args[0]), upstreamArgs(up, "--listen", "127.0.0.1:1", "--admin", "127.0.0.1:1", "--socket", "/nowhere/s")...)
	cmd := exec.Command(activate, args...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close() // the first connection starts rtd
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	m.await("READY=1", "")
	c := wiretest.Connect(t, listen)
	c.ExpectText(wiretest.SessionCreated)
	p := &process{t: t, socket: socket, admin: admin}
	if out, _ := expect(t, p.rtctl("status"), 0); !strings.Contains(out, listen) || !strings.Contains(out, admin) || !strings.Contains(out, socket) {
		t.Errorf("status does not name the sockets passed:\n%s", out)
	}
	if status, body := p.get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	c.Close()
	_ = cmd.Process.Signal(syscall.SIGTERM) // systemd-socket-activate has become rtd
	if err := <-exited; err != nil {
		t.Errorf("%v:\n%s", err, log.String())
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket is the manager's to remove: %v", err)
	}
}

func TestANamelessSocketIsRefused(t *testing.T) {
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		t.Skip("systemd-socket-activate is not installed")
	}
	up := wiretest.NewUpstream(t, wiretest.Ready)
	listen := freePort(t)
	cmd := exec.Command(activate, append([]string{"-l", listen, "-E", "RTD_TEST_MAIN=1", os.Args[0]}, upstreamArgs(up)...)...)
	go func() {
		for range 1000 {
			if conn, err := net.Dial("tcp", listen); err == nil {
				conn.Close()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if _, stderr := expect(t, cmd, 1); !strings.Contains(stderr, "FileDescriptorName= must be data, admin or control") {
		t.Errorf("stderr %q", stderr)
	}
}

// analyze runs systemd-analyze on the units of the tree.
func analyze(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil || strings.Contains(string(out), dirOf(args)) {
		t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// dirOf is what a complaint about one of the units begins with.
func dirOf(args []string) string { return filepath.Dir(args[len(args)-1]) + "/rtd." }

func TestTheUnitsAreValid(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"rtd.service", "rtd.socket"} {
		unit, err := os.ReadFile(units + name)
		if err != nil {
			t.Fatal(err)
		}
		// The programs need not be installed where the tests run.
		unit = regexp.MustCompile(`(?m)^(Exec\w+=)/usr/bin/\w+`).ReplaceAll(unit, []byte("${1}"+os.Args[0]))
		if err := os.WriteFile(filepath.Join(dir, name), unit, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	analyze(t, "verify", "--man=no", filepath.Join(dir, "rtd.service"), filepath.Join(dir, "rtd.socket"))
}

func TestTheServiceIsSandboxed(t *testing.T) {
	path, err := filepath.Abs(units + "rtd.service")
	if err != nil {
		t.Fatal(err)
	}
	analyze(t, "security", "--no-pager", "--offline=true", "--threshold=15", path)
}

func TestTheServiceMatchesTheDaemon(t *testing.T) {
	b, err := os.ReadFile(units + "rtd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(b)
	f := func(key string) time.Duration {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `=(\S+)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("no %s=", key)
		}
		d, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if stop := f("TimeoutStopSec"); stop <= daemon.DefaultGrace {
		t.Errorf("the manager kills after %v, the daemon may need %v", stop, daemon.DefaultGrace)
	}
	if f("WatchdogSec") < 10*time.Second {
		t.Error("the watchdog is shorter than two status lines")
	}
	if !strings.Contains(unit, "\nType=notify\n") || !strings.Contains(unit, "\nExecReload=/usr/bin/rtctl reload\n") {
		t.Error("the service must be of Type=notify, with a reload whose failure systemctl shows")
	}
	if strings.Contains(unit, "\nConfigurationDirectoryMode=") || !strings.Contains(unit, "\nRuntimeDirectoryPreserve=yes\n") {
		t.Error("the daemon has to read in /etc/rtd, which is root's, and a socket unit has to find its socket after a restart")
	}
	socket, err := os.ReadFile(units + "rtd.socket")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(socket), "\nListenStream="+daemon.DefaultListen+"\nFileDescriptorName=data\n") {
		t.Errorf("rtd.socket is not the default data port:\n%s", socket)
	}
}

// A socket unit whose ListenStream= is a port in place of a path must not put control on the network.
func TestControlIsNotInheritedOverTCP(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	passed, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	args := append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0]}, upstreamArgs(up, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it would serve
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.ExtraFiles = []*os.File{passed}
	cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=control")
	out, err := cmd.CombinedOutput()
	if want := "rtd: inherited control socket: " + ln.Addr().String() + " is no Unix socket; give ListenStream= a path"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %q", err, out, want)
	}
}
