package daemon

import (
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

const (
	// windowStep is how often a moment is kept, windowLength how far back the last minute reaches.
	windowStep   = 10 * time.Second
	windowLength = time.Minute
	// inStep is the longest interval at whole multiples of which one ticks, so that all who look that often look at once.
	inStep = windowStep
)

// moment is what was counted up to a point in time. It does not change.
type moment struct {
	at       time.Time
	snapshot *stats.Snapshot
	relay    relay.Totals
	message  func() *rtdv1.Stats // without a last interval; whoever asks is given the same

	mu     sync.Mutex
	since  time.Time // what window begins with
	window *rtdv1.Window
}

func (d *Daemon) moment() *moment {
	totals := d.engine.Stats() // sessions are told what passed until now, which the snapshot then has
	m := &moment{at: time.Now(), snapshot: d.stats.Snapshot(), relay: totals}
	m.message = sync.OnceValue(func() *rtdv1.Stats { return d.statsMessage(m) })
	return m
}

// messageSince is message with what happened since before, an earlier moment.
func (m *moment) messageSince(before *moment) *rtdv1.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.since.Equal(before.at) {
		m.since, m.window = before.at, windowMessage(before, m)
	}
	out := &rtdv1.Stats{}
	m.message().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(field, v)
		return true
	})
	out.LastInterval = m.window
	return out
}

// tickAt is the tick that now is for, untilTick the time from now to the one after it.
func tickAt(now time.Time, interval time.Duration) time.Time {
	if interval > inStep {
		return now
	}
	return now.Round(interval)
}

func untilTick(now time.Time, interval time.Duration) time.Duration {
	return tickAt(now, interval).Add(interval).Sub(now)
}

// history keeps the moments of the last minute, and the last that was taken for a tick. The zero value knows only the start.
type history struct {
	mu      sync.Mutex
	start   time.Time
	moments []*moment // the oldest first

	ticking sync.Mutex
	ticked  *moment
}

// at returns a moment not before tick, the same to all who tick then.
func (h *history) at(tick time.Time, take func() *moment) *moment {
	h.ticking.Lock()
	defer h.ticking.Unlock()
	if h.ticked == nil || h.ticked.at.Before(tick) {
		h.ticked = take()
	}
	return h.ticked
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
	if n := len(h.moments); n > 0 && now.Sub(h.moments[n-1].at).Round(time.Second) < windowStep {
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
