package bench

import (
	"time"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/stats"
)

// Flow is what became of chunks on their way in one direction. They are told apart by their numbers: one that is lost and
// one that came twice do not cancel out.
type Flow struct {
	Sent       uint64 `json:"sent"`
	Arrived    uint64 `json:"arrived"` // distinct chunks
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"` // came behind a later one
}

func (f *Flow) add(o Flow) {
	f.Sent += o.Sent
	f.Arrived += o.Arrived
	f.Lost += o.Lost
	f.Duplicated += o.Duplicated
	f.Reordered += o.Reordered
}

// order follows the numbers of one direction.
type order struct {
	seen      []bool
	next      int
	arrived   uint64
	twice     uint64
	reordered uint64
}

// take reports whether the chunk is the first of its number.
func (o *order) take(n int) bool {
	if n >= len(o.seen) {
		o.seen = append(o.seen, make([]bool, n+1-len(o.seen))...)
	}
	if o.seen[n] {
		o.twice++
		return false
	}
	o.seen[n] = true
	o.arrived++
	if n < o.next {
		o.reordered++
	}
	o.next = max(o.next, n+1)
	return true
}

func (o *order) flow(sent uint64) Flow {
	return Flow{Sent: sent, Arrived: o.arrived, Lost: sent - min(o.arrived, sent), Duplicated: o.twice, Reordered: o.reordered}
}

// track follows the chunks of one session. The speaker and the listener each have their own part.
type track struct {
	period time.Duration
	late   stats.Histogram // the speaker's: written after due

	// The listener's.
	echoes   uint64
	up, down order
	times    timings
	lastUp   time.Time
	lastDown time.Time
}

// timings are what Stream measures of each chunk.
type timings struct {
	upDue, upSent  stats.Histogram // due, or written, to read by the upstream
	down           stats.Histogram // written by the upstream to read
	round          stats.Histogram // written to read again
	upGap, downGap stats.Histogram // distance of two arrivals in a row, less the period
}

func (t *timings) merge(o *timings) {
	t.upDue.Merge(&o.upDue)
	t.upSent.Merge(&o.upSent)
	t.down.Merge(&o.down)
	t.round.Merge(&o.round)
	t.upGap.Merge(&o.upGap)
	t.downGap.Merge(&o.downGap)
}

func newTrack(period time.Duration, chunks int) *track {
	return &track{period: period, up: order{seen: make([]bool, chunks)}, down: order{seen: make([]bool, chunks)}}
}

func (t *track) lateBy(d time.Duration) { t.late.Record(d) }

// arrived takes a chunk that was due at due and is back at now.
func (t *track) arrived(s sim.Stamp, due, now time.Time) {
	t.echoes++
	t.down.take(int(min(s.Echo, uint32(2*cap(t.down.seen)))))
	if !t.up.take(int(s.Seq)) {
		return
	}
	sent, up := time.Unix(0, s.Sent), time.Unix(0, s.Arrived)
	t.times.upDue.Record(up.Sub(due))
	t.times.upSent.Record(up.Sub(sent))
	t.times.down.Record(now.Sub(up))
	t.times.round.Record(now.Sub(sent))
	t.gap(&t.times.upGap, &t.lastUp, up)
	t.gap(&t.times.downGap, &t.lastDown, now)
}

func (t *track) gap(h *stats.Histogram, last *time.Time, now time.Time) {
	if !last.IsZero() {
		h.Record((now.Sub(*last) - t.period).Abs())
	}
	*last = now
}

// flows are both directions, once all is over. What the upstream sent back is what its own numbers say.
func (t *track) flows(sent uint64) (up, down Flow) {
	returned := uint64(t.down.next)
	up = t.up.flow(sent)
	// A chunk that came up and whose echo was lost is missing from both: it is the way down that lost it.
	down = t.down.flow(returned)
	up.Arrived = min(up.Arrived+down.Lost, sent)
	up.Lost -= min(up.Lost, down.Lost)
	return up, down
}
