package daemon

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/pool"
)

// Bounds of what the log says about dials, over all pools: an upstream can fail and recover thousands of times a second.
const (
	poolLogBurst    = 5
	poolLogInterval = time.Second // of further lines
	poolLogQueue    = 64
)

// poolLog writes what happens to the dials of pools. A pool's events come on goroutines that must not wait for a log, the
// relay's pollers among them, so they are handed to one that may.
type poolLog struct {
	log    hclog.Logger
	events chan poolEvent
	lost   atomic.Uint64 // events that found the queue full

	// Owned by run.
	pools  map[string]*poolHistory
	tokens int
	filled time.Time
}

type poolEvent struct {
	pool.Event
	key, name string
	at        time.Time
}

// poolHistory is what was last said of a pool.
type poolHistory struct {
	failing bool // the last line was a failure
	class   pool.Class
	quiet   time.Time // until then a further failure of that class is no news: the dials of one round fail together
	held    uint64    // failures without a line since the last line
}

func newPoolLog(log hclog.Logger) *poolLog {
	return &poolLog{log: log, events: make(chan poolEvent, poolLogQueue), pools: map[string]*poolHistory{}, tokens: poolLogBurst}
}

// of is the receiver for the events of one pool.
func (l *poolLog) of(key, name string) func(pool.Event) {
	return func(e pool.Event) {
		select {
		case l.events <- poolEvent{e, key, name, time.Now()}:
		default:
			l.lost.Add(1)
		}
	}
}

// run writes until stop is closed and the queue is empty.
func (l *poolLog) run(stop <-chan struct{}) {
	for {
		select {
		case e := <-l.events:
			l.write(e)
		case <-stop:
			for len(l.events) > 0 {
				l.write(<-l.events)
			}
			return
		}
	}
}

func (l *poolLog) write(e poolEvent) {
	h := l.pools[e.key]
	if h == nil {
		h = &poolHistory{}
		l.pools[e.key] = h
	}
	switch e.Kind {
	case pool.EventDialFailed:
		l.failed(h, e)
	case pool.EventRecovered:
		if h.failing { // its failure had a line, so this one is as rare
			h.failing = false
			l.log.Info("upstream dials succeed again", "pool", e.name, "more_failures", h.take(&l.lost))
		}
	}
}

// failed says that a round of dials failed, once for each round and class.
func (l *poolLog) failed(h *poolHistory, e poolEvent) {
	known := h.failing && h.class == e.Err.Class && e.at.Before(h.quiet)
	if known || !l.allow(e.at) {
		h.held++
		return
	}
	h.failing, h.class, h.quiet = true, e.Err.Class, e.at.Add(max(e.RetryIn, poolLogInterval))
	args := []any{"pool", e.name, "class", e.Err.Class.String(), "error", e.Err.Error(), "retry_in", e.RetryIn.Round(time.Millisecond).String()}
	if more := h.take(&l.lost); more > 0 {
		args = append(args, "more_failures", more)
	}
	switch e.Err.Class {
	case pool.ClassAuth, pool.ClassQuota, pool.ClassNotFound, pool.ClassConfig:
		l.log.Error("upstream dial failed; it will go on failing until the key, the account, the model or the preset is put right", args...)
	default:
		l.log.Warn("upstream dial failed", args...)
	}
}

// take returns how many failures had no line of their own, and begins to count anew.
func (h *poolHistory) take(lost *atomic.Uint64) uint64 {
	n := h.held + lost.Swap(0)
	h.held = 0
	return n
}

// allow takes a line from the budget.
func (l *poolLog) allow(now time.Time) bool {
	if l.filled.IsZero() {
		l.filled = now
	}
	if n := int(now.Sub(l.filled) / poolLogInterval); n > 0 {
		l.tokens = min(poolLogBurst, l.tokens+n)
		l.filled = l.filled.Add(time.Duration(n) * poolLogInterval)
	}
	if l.tokens == 0 {
		return false
	}
	l.tokens--
	return true
}
