package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// terminal opens a pseudo terminal of a size: what rtctl writes to, and what a person sees.
func terminal(t *testing.T, width, height uint16) (inside, outside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { outside.Close() })
	fd := int(outside.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
	return inside, outside
}

// read collects what is seen until it holds all of want.
func read(t *testing.T, outside *os.File, want string, times int) string {
	t.Helper()
	var seen strings.Builder
	timer := time.AfterFunc(20*time.Second, func() { outside.Close() })
	defer timer.Stop()
	buf := make([]byte, 4096)
	for strings.Count(seen.String(), want) < times {
		n, err := outside.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
		seen.Write(buf[:n])
	}
	return seen.String()
}

func TestWatchRedrawsInPlace(t *testing.T) {
	f := serve(t, newFake(failingPool(), warmPool()))
	inside, outside := terminal(t, 60, 12)
	done := make(chan int)
	go func() {
		done <- execute(t.Context(), []string{"--endpoint", f.socket, "stats", "--watch", "--interval", "100ms"}, inside, &bytes.Buffer{})
	}()
	seen := read(t, outside, "\x1b[J", 3)
	f.server.Stop()
	if status := <-done; status != exitFailed {
		t.Fatalf("status %d", status)
	}
	frames := strings.Split(seen, "\x1b[J")
	for i, frame := range frames[:3] {
		lines := strings.Split(strings.TrimSuffix(frame, "\x1b[K\r\n"), "\x1b[K\r\n")
		if len(lines) != 11 {
			t.Errorf("frame %d has %d lines on a terminal of 12", i, len(lines))
		}
		if back := strings.HasPrefix(frame, "\x1b[11A"); back != (i > 0) {
			t.Errorf("frame %d begins %q", i, lines[0])
		}
		for _, line := range lines {
			if line = strings.TrimPrefix(line, "\x1b[11A"); len([]rune(line)) > 60 || strings.Contains(line, "\x1b") {
				t.Errorf("frame %d: a line that wraps or steers: %q", i, line)
			}
		}
	}
}

func TestProgressIsOnTheTerminalOnly(t *testing.T) {
	f := newFake(warmPool())
	f.drain = append(f.drain[:2:2], &rtdv1.DrainDaemonResponse{State: rtdv1.DaemonState_DAEMON_STATE_DRAINED, Drain: &rtdv1.Drain{Ended: 3}})
	serve(t, f)
	inside, outside := terminal(t, 80, 24)
	var stdout bytes.Buffer
	if status := execute(t.Context(), []string{"--endpoint", f.socket, "drain"}, &stdout, inside); status != 0 {
		t.Fatalf("status %d", status)
	}
	want := "\rdraining: 3 left, 0 ended, 0 forced, 3.00s to go\x1b[K\rdraining: 2 left, 1 ended, 0 forced, 2.00s to go\x1b[K\r\x1b[K"
	if seen := read(t, outside, "\r\x1b[K", 1); seen != want {
		t.Fatalf("seen %q, want %q", seen, want)
	}
	if strings.Contains(stdout.String(), "\x1b") || !strings.HasPrefix(stdout.String(), "drained") {
		t.Fatalf("stdout %q", &stdout)
	}
}
