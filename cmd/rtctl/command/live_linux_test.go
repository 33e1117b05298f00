package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// watcher is rtctl as a process on a terminal of its own.
type watcher struct {
	t               *testing.T
	cmd             *exec.Cmd
	inside, outside *os.File
	before          unix.Termios
}

func watch(t *testing.T, f *fake, env string, args ...string) *watcher {
	t.Helper()
	w := &watcher{t: t, cmd: process(t, f, args...)}
	w.inside, w.outside = terminal(t, 80, 24)
	w.before = w.termios()
	w.cmd.Env = append(w.cmd.Env, "TERM=xterm-256color", env)
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = w.inside, w.inside, w.inside
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watcher) termios() unix.Termios {
	w.t.Helper()
	state, err := unix.IoctlGetTermios(int(w.inside.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	return *state
}

func (w *watcher) see(want string) string { w.t.Helper(); return read(w.t, w.outside, want, 1) }

func (w *watcher) press(keys string) {
	w.t.Helper()
	if _, err := w.outside.WriteString(keys); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watcher) resize(width, height uint16) {
	w.t.Helper()
	if err := unix.IoctlSetWinsize(int(w.outside.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		w.t.Fatal(err)
	}
}

// ends checks that the view is left as it must be: the old screen, a cursor, and a
// terminal that shows what is typed.
func (w *watcher) ends() {
	w.t.Helper()
	last := w.see("\x1b[?1049l")
	if !strings.Contains(last, "\x1b[?25h") && !strings.Contains(w.see("\x1b[?25h"), "\x1b[?25h") {
		w.t.Error("the cursor stays hidden")
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("it ends with %v", err)
	}
	if after := w.termios(); after != w.before {
		w.t.Errorf("the terminal is %+v, was %+v", after, w.before)
	}
}

// serveAgain puts another daemon where one was.
func serveAgain(t *testing.T, f *fake, socket string) {
	t.Helper()
	l, err := unixsock.Listen(socket, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.server = grpc.NewServer(grpc.Creds(unixsock.Credentials()))
	rtdv1.RegisterStatsServiceServer(f.server, f)
	rtdv1.RegisterSessionServiceServer(f.server, f)
	done := make(chan error, 1)
	go func() { done <- f.server.Serve(l) }()
	t.Cleanup(func() {
		f.server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestLiveViewOnATerminal(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	w := watch(t, f, "NO_COLOR=", "stats", "--watch", "--interval", "100ms")
	seen := w.see("s-3")
	if !strings.Contains(seen, "\x1b[?1049h") || !strings.Contains(seen, "openai/gpt-realtime") {
		t.Errorf("the first picture is %q", seen)
	}
	if !coloured.MatchString(seen) {
		t.Error("it has no colours")
	}
	w.resize(30, 8)
	w.see("too small")
	w.resize(80, 24)
	w.see("PER SECOND")
	w.press("?")
	w.see("any other key")
	w.press("x")
	w.see("PER SECOND")

	f.server.Stop()
	w.see("DAEMON")
	back := newFake(warmPool())
	back.stats.Uptime = durationpb.New(5 * time.Second)
	serveAgain(t, back, f.socket)
	w.see("5.00s")
	w.press("q")
	w.ends()
	back.waitClean(t)
}

func TestTopOpensOnTheSessions(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	w := watch(t, f, "NO_COLOR=yes please", "top", "--interval", "100ms")
	seen := w.see("s-3")
	if strings.Contains(seen, "PER SECOND") || !strings.Contains(seen, "SESSION") {
		t.Errorf("the first picture is %q", seen)
	}
	if found := coloured.FindString(seen); found != "" {
		t.Errorf("colours in spite of NO_COLOR: %q", found)
	}
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.ends()
	f.waitClean(t)
}

// Whoever watches a daemon on its own machine must not hold up its calls.
func TestTheLiveViewStaysBehind(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	w := watch(t, f, "NO_COLOR=", "top", "--interval", "100ms")
	w.see("s-3")
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", w.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads: %v, %v", threads, err)
	}
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		if err != nil {
			t.Fatal(err)
		}
		// proc(5): the policy is the 41st field, the second is a name in parentheses.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
		if policy := fields[39]; policy != strconv.Itoa(schedIdle) {
			t.Errorf("a thread has the policy %s, want %d", policy, schedIdle)
		}
	}
	w.press("q")
	w.ends()
}

// A terminal that cannot be written all over gets the plain tables.
func TestNoLiveViewOnADumbTerminal(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	w := watch(t, f, "TERM=dumb", "top")
	if seen := w.see("s-3"); strings.Contains(seen, "\x1b") {
		t.Errorf("it steers the terminal: %q", seen)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// coloured finds what sets a colour.
var coloured = regexp.MustCompile("\x1b\\[([0-9;]*;)?(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")

// The view is of one daemon: with several, one line says what there is instead.
func TestTheLiveViewIsOfOneDaemon(t *testing.T) {
	sockets := twoDaemons(t)
	for _, line := range []string{"top", "stats --watch"} {
		w := watch(t, &fake{socket: sockets["a"]}, "NO_COLOR=", append(strings.Fields(line), "--endpoint", sockets["a"], "--endpoint", sockets["b"])...)
		w.see("the live view shows one daemon: give one --endpoint, or add -o json")
		_ = w.cmd.Wait()
		if code := w.cmd.ProcessState.ExitCode(); code != exitUsage {
			t.Errorf("%s ends with %d", line, code)
		}
	}
}

// What several daemons are waited for is one line of a terminal, and gone afterwards.
func TestProgressOfSeveralDaemons(t *testing.T) {
	sockets := twoDaemons(t)
	w := watch(t, &fake{socket: sockets["a"]}, "NO_COLOR=", "drain", "--endpoint", sockets["a"], "--endpoint", sockets["b"])
	if seen := w.see("RESULT"); !strings.Contains(seen, "a: draining: ") && !strings.Contains(seen, "b: draining: ") {
		t.Errorf("%q", seen)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
