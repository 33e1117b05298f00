package daemon

import (
	"sync"
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

const (
	// windowStep is how often a moment is kept, windowLength how far back the last minute reaches.
	windowStep   = 10 * time.Second
	windowLength = time.Minute
)

// moment is what was counted up to a point in time. It does not change.
type moment struct {
	at       time.Time
	snapshot *stats.Snapshot
	relay    relay.Totals
}

func (d *Daemon) moment() *moment {
	totals := d.engine.Stats() // sessions are told what passed until now, which the snapshot then has
	return &moment{at: time.Now(), snapshot: d.stats.Snapshot(), relay: totals}
}

// history keeps the moments of the last minute. The zero value knows only the start.
type history struct {
	mu      sync.Mutex
	start   time.Time
	moments []*moment // the oldest first
}

// begin notes the start of everything.
func (h *history) begin(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = at
}

// keep adds a moment if it is time, and forgets what no window reaches any more.
func (h *history) keep(now time.Time, take func() *moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.moments); n > 0 && now.Sub(h.moments[n-1].at) < windowStep {
		return
	}
	h.moments = append(h.moments, take())
	for len(h.moments) > 1 && now.Sub(h.moments[1].at) >= windowLength {
		h.moments = append(h.moments[:0:0], h.moments[1:]...)
	}
}

// minute is the moment at which the minute up to now began: the latest that is at least a minute ago, or the start.
func (h *history) minute(now time.Time) *moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.moments) - 1; i >= 0; i-- {
		if now.Sub(h.moments[i].at) >= windowLength {
			return h.moments[i]
		}
	}
	return &moment{at: h.start, snapshot: &stats.Snapshot{}}
}
