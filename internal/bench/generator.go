package bench

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
)

// beat is how often the generator looks at its own clock.
const beat = 5 * time.Millisecond

// maxCPU is the share of the host's CPUs from which on a generator has no time left to look at the clock, over cpuWindow
// at least: the start of any program takes all there is.
const (
	maxCPU    = 0.95
	cpuWindow = time.Second
)

// watch measures the generator while it runs: how late its timers fire, which is how late it reads its sockets as well,
// and the CPU it takes.
type watch struct {
	start time.Time
	cpu   time.Duration
	quit  chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	late   stats.Histogram
	queued stats.Histogram
}

func startWatch() *watch {
	w := &watch{start: time.Now(), cpu: cpuTime(), quit: make(chan struct{})}
	w.wg.Go(w.beat)
	return w
}

func (w *watch) beat() {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for due := time.Now().Add(beat); ; {
		select {
		case <-w.quit:
			return
		case <-timer.C:
		}
		now := time.Now()
		w.wasLate(now.Sub(due))
		due = now.Add(beat)
		timer.Reset(beat)
	}
}

func (w *watch) wasLate(d time.Duration)   { w.record(&w.late, d) }
func (w *watch) wasQueued(d time.Duration) { w.record(&w.queued, d) }

func (w *watch) record(h *stats.Histogram, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Record(d)
}

// stop ends the watch.
func (w *watch) stop() Generator {
	close(w.quit)
	w.wg.Wait()
	wall, cpu := time.Since(w.start), cpuTime()-w.cpu
	return Generator{
		Seconds:    wall.Seconds(),
		CPUSeconds: cpu.Seconds(),
		CPUShare:   cpu.Seconds() / wall.Seconds() / float64(runtime.NumCPU()),
		Late:       figures(&w.late),
		Queued:     figures(&w.queued),
	}
}

// Generator is how the generator itself fared.
type Generator struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // user and system
	CPUShare   float64 `json:"cpu_share"`   // of all CPUs of the host, 0 to 1
	// Late is how long after their time the generator's own timers fired.
	Late Figures `json:"late"`
	// Queued is how long calls of an open loop waited because all workers were busy: the target's doing, and in the total.
	Queued Figures `json:"queued"`
}

// saturated says why the generator, and not what it measured, was the bottleneck.
func (g *Generator) saturated(maxLate time.Duration) (reasons []string) {
	if limit := ms(maxLate); g.Late.P99 > limit {
		reasons = append(reasons, fmt.Sprintf("the generator was late by %s ms at p99, more than %s ms: give it less to do, or free CPUs", number(g.Late.P99), number(limit)))
	}
	if g.CPUShare > maxCPU && g.Seconds >= cpuWindow.Seconds() {
		reasons = append(reasons, fmt.Sprintf("the generator used %.0f%% of all CPUs: give it less to do", 100*g.CPUShare))
	}
	return reasons
}

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
