package daemon

import (
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// gather is how many chunks of audio are noted before they are worked out. With many sessions most of what a chunk costs
// is fetching memory and code that others drove out of the cache meanwhile: so as little as possible is done per chunk.
const gather = 16

// track follows the audio of one direction.
type track struct {
	n, passed uint8         // chunks noted, and of those how many were passed on
	broken    bool          // the next chunk begins another stream
	last      time.Duration // when the last chunk came; 0 is never
	chunks    [gather]chunk
	cadence   stats.Cadence
}

// chunk says when a chunk came and when it was written. in is negative when it begins another stream, out is negative
// when it was written together with one before it.
type chunk struct{ in, out time.Duration }

// jitter describes the chunks of one direction as they came and as they were passed on.
type jitter struct {
	in, out measure
	gap     time.Duration // the median, as it was last
}

// The phases of the chunks, by direction.
var (
	jitterIn  = [2]stats.Phase{relay.Up: stats.PhaseJitterInUp, relay.Down: stats.PhaseJitterInDown}
	jitterOut = [2]stats.Phase{relay.Up: stats.PhaseJitterOutUp, relay.Down: stats.PhaseJitterOutDown}
	added     = [2]stats.Phase{relay.Up: stats.PhaseAddedUp, relay.Down: stats.PhaseAddedDown}
)

// chunk takes a chunk of audio.
func (p *progress) chunk(dir relay.Dir, at time.Duration, to sink) {
	t := &p.activate().tracks[dir]
	if t.n == gather {
		p.makeRoom(dir, at, to)
	}
	t.last = at
	if t.broken {
		t.broken = false
		at = -at
	}
	t.chunks[t.n].in = at
	t.n++
}

// makeRoom works the chunks out. Those that wait for a slow receiver count as passed on now.
func (p *progress) makeRoom(dir relay.Dir, now time.Duration, to sink) {
	if t := &p.active.tracks[dir]; t.passed == 0 {
		t.pass(now)
	}
	p.settle(dir, to)
}

// passed takes note that what came in a direction at readable is written.
func (p *progress) passed(dir relay.Dir, readable, written time.Duration, to sink) {
	if p.active != nil {
		if t := &p.active.tracks[dir]; t.passed < t.n {
			t.pass(written)
			return
		}
	}
	to.record(added[dir], written-readable)
}

func (t *track) pass(written time.Duration) {
	t.chunks[t.passed].out = written
	for t.passed++; t.passed < t.n; t.passed++ {
		t.chunks[t.passed].out = -written
	}
}

// settle works out the chunks that were passed on.
func (p *progress) settle(dir relay.Dir, to sink) {
	t, j := &p.active.tracks[dir], &p.jitter[dir]
	var samples [3][gather]time.Duration
	in, out, took := samples[0][:0], samples[1][:0], samples[2][:0]
	for _, c := range t.chunks[:t.passed] {
		if c.in < 0 {
			c.in = -c.in
			t.cadence.Break()
		}
		if d, ok := t.cadence.In(c.in); ok {
			in = append(in, d)
			j.in.add(d)
		}
		if c.out > 0 {
			took = append(took, c.out-c.in)
		}
		if d, ok := t.cadence.Out(max(c.out, -c.out)); ok {
			out = append(out, d)
			j.out.add(d)
		}
	}
	to.recordAll(jitterIn[dir], in)
	to.recordAll(jitterOut[dir], out)
	to.recordAll(added[dir], took)
	copy(t.chunks[:], t.chunks[t.passed:t.n])
	t.n, t.passed = t.n-t.passed, 0
	if gap := t.cadence.Median(); gap > 0 {
		j.gap = gap
	}
}

// settleAll works out both directions.
func (p *progress) settleAll(to sink) {
	for dir := range p.active.tracks {
		p.settle(relay.Dir(dir), to)
	}
}
