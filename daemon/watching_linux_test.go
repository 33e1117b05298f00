package daemon

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchPeriods is the length of a slice in chunks of each session: 2 s, the interval of a watch, so that one look is in all of them.
	watchPeriods = 100
	// watchStart is how long those who watch are given to draw their first picture.
	watchStart = 700 * time.Millisecond
)

// BenchmarkWatcherLatency compares how long a chunk takes to the upstream and back while three rtctl watch the daemon, each
// in a terminal of its own, and while none does, in slices that take turns: 300 sessions with a 20 ms chunk each way. The
// ratios are watched against unwatched, medians over the turns with their 95% interval and quartiles. -benchtime 30x gives
// them enough turns. "shared": they compete for the cores with the daemon and the load. "yielding": they run on a core that
// nobody else wants, so that what is left is the daemon's own work for them.
func BenchmarkWatcherLatency(b *testing.B) {
	b.Run("shared", func(b *testing.B) { watcherLatency(b) })
	b.Run("yielding", func(b *testing.B) {
		if _, err := exec.LookPath("chrt"); err != nil {
			b.Skip("chrt, of util-linux, is not installed")
		}
		watcherLatency(b, "chrt", "--idle", "0")
	})
}

// watcherLatency runs each rtctl by the command before it, if one is given.
func watcherLatency(b *testing.B, before ...string) {
	rtctl := filepath.Join(b.TempDir(), "rtctl")
	if out, err := exec.Command("go", "build", "-o", rtctl, "../cmd/rtctl").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	s := startLoaded(b, load{chunk: appendUp, answer: deltaDown})
	slice := func(watched bool) (p50, p99, cpu float64) {
		if watched {
			for _, args := range [][]string{{"stats", "--watch"}, {"top"}, {"session", "watch"}} {
				stop := watch(b, slices.Concat(before, []string{rtctl, "--endpoint", s.socket}, args))
				defer stop()
			}
		}
		time.Sleep(watchStart)
		used := s.tell("")
		chunks := s.speak(watchPeriods)
		cpu = (s.tell("") - used) / float64(chunks)
		var took []time.Duration
		for _, c := range s.clients {
			took = append(took, c.took...)
		}
		slices.Sort(took)
		return took[len(took)/2].Seconds() * 1e6, took[len(took)*99/100].Seconds() * 1e6, cpu
	}
	slice(false)
	var p50s, p99s, cpus, quick, slow []float64
	for b.Loop() {
		a50, a99, a := slice(true)
		b50, b99, b := slice(false)
		c50, c99, c := slice(false) // the other way round, against drift
		d50, d99, d := slice(true)
		p50s, p99s, cpus = append(p50s, (a50+d50)/(b50+c50)), append(p99s, (a99+d99)/(b99+c99)), append(cpus, (a+d)/(b+c))
		quick, slow = append(quick, b50, c50), append(slow, b99, c99)
	}
	reportRatio(b, "p50", p50s)
	reportRatio(b, "p99", p99s)
	reportRatio(b, "cpu", cpus)
	b.ReportMetric(median(quick), "unwatched-p50-µs")
	b.ReportMetric(median(slow), "unwatched-p99-µs")
	b.ReportMetric(0, "ns/op")
}

// watch runs a command in a terminal of 80x24 that somebody reads, until stop is called.
func watch(b *testing.B, command []string) (stop func()) {
	b.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		b.Skip(err)
	}
	fd := int(outside.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		b.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		b.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24}); err != nil {
		b.Fatal(err)
	}
	inside, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inside, inside, inside
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	inside.Close()
	var seen int64
	read := make(chan struct{})
	go func() {
		defer close(read)
		seen, _ = io.Copy(io.Discard, outside)
	}()
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		outside.Close()
		<-read
		if seen < 1000 {
			b.Errorf("%q showed %d bytes: nobody watched", command, seen)
		}
	}
}
