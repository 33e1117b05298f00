package daemon

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/rtd-project/rtd/internal/relay"
)

const (
	// trimAfter is how many new sessions, or sessions that came to rest, are worth a trim: they left that much garbage behind.
	trimAfter = 256
	// restAfter is how long a session is silent before what it needs only while something goes on is taken from it.
	restAfter = 10 * time.Second
)

// observe looks at the process once a second until stop is closed: it samples the memory, keeps the moments that windows
// begin at, and gives back what is not used any more.
func (d *Daemon) observe(stop <-chan struct{}) {
	// Halfway between the ticks of those who watch: not all is to be done at once.
	untilNext := func() time.Duration { return untilTick(time.Now().Add(-time.Second/2), time.Second) }
	next := time.NewTimer(untilNext())
	defer next.Stop()
	d.history.begin(d.started)
	var t trimmer
	var rested uint64
	for {
		select {
		case <-stop:
			return
		case <-next.C:
			now := time.Now()
			next.Reset(untilNext())
			if !d.blind.Load() {
				totals := d.engine.Stats()
				d.memory.sample(totals.Parked + totals.Live)
				d.history.keep(now, d.moment)
				rested += d.restSessions(now)
			}
			t.trim(d.accepted.Load() + rested)
		}
	}
}

// trimmer gives the memory that a burst of sessions used for a moment back to the system once the burst is over.
type trimmer struct{ trimmed, before uint64 }

// trim is told once a second how many there were in all.
func (t *trimmer) trim(n uint64) {
	if n == t.before && n-t.trimmed >= trimAfter {
		runtime.GC() // what a sync.Pool holds is let go by the second of two collections
		debug.FreeOSMemory()
		t.trimmed = n
	}
	t.before = n
}

// restSessions takes the activity of the sessions that fell silent without ending a response, and counts them.
func (d *Daemon) restSessions(now time.Time) (rested uint64) {
	for _, s := range d.sessions.all() {
		silent := now.Sub(d.epoch) - time.Duration(s.heard.Load())
		if silent < restAfter || silent >= restAfter+2*time.Second || s.heard.Load() == 0 {
			continue // was there before, or never busy
		}
		s.upstream.relay.Inspect(func(at time.Duration, _ relay.Counters) {
			if s.progress.ledger != nil && s.progress.active != nil {
				s.progress.rest(at)
				rested++
			}
		})
	}
	return rested
}
