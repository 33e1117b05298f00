package daemon

import (
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// gather is how many chunks of audio are noted before they are worked out. With many sessions most of what a chunk costs
// is fetching memory and code that others drove out of the cache meanwhile: so as little as possible is done per chunk.
const gather = 16

// noted says how far the chunks of a direction are.
type noted struct {
	n, passed uint8 // chunks noted, and of those how many were passed on
	broken    bool  // the next chunk begins another stream
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

// chunk takes a chunk of audio. What is noted of it is only written here: nothing waits for that memory.
func (p *progress) chunk(dir relay.Dir, at time.Duration, to sink) {
	if p.chunks == nil {
		p.activate()
	}
	c := &p.noted[dir]
	if c.n == gather {
		p.makeRoom(dir, at, to)
	}
	if c.broken {
		c.broken = false
		at = -at
	}
	p.chunks[int(dir)*gather+int(c.n)].in = at
	c.n++
}

// makeRoom works the chunks out. Those that wait for a slow receiver count as passed on now.
func (p *progress) makeRoom(dir relay.Dir, now time.Duration, to sink) {
	if p.noted[dir].passed == 0 {
		p.pass(dir, now)
	}
	p.settle(dir, to)
}

// passed takes note that what came in a direction at readable is written.
func (p *progress) passed(dir relay.Dir, readable, written time.Duration, to sink) {
	if c := &p.noted[dir]; c.passed < c.n {
		p.pass(dir, written)
		return
	}
	if p.ledger != nil { // else what came before the first message went out late
		p.added[dir].add(written - readable)
	}
	to.record(added[dir], written-readable)
}

func (p *progress) pass(dir relay.Dir, written time.Duration) {
	c, first := &p.noted[dir], int(dir)*gather
	p.chunks[first+int(c.passed)].out = written
	for c.passed++; c.passed < c.n; c.passed++ {
		p.chunks[first+int(c.passed)].out = -written
	}
}

// silentSince is when the last chunk of a direction came, of which all are passed on; 0 is never.
func (p *progress) silentSince(dir relay.Dir) time.Duration {
	n := int(p.noted[dir].n)
	if n == 0 {
		return p.active.cadence[dir].Last()
	}
	last := p.chunks[int(dir)*gather+n-1].in
	return max(last, -last)
}

// settle works out the chunks that were passed on.
func (p *progress) settle(dir relay.Dir, to sink) {
	c, cadence, j, held := &p.noted[dir], &p.active.cadence[dir], &p.jitter[dir], &p.added[dir]
	chunks := p.chunks[int(dir)*gather:][:c.n]
	var samples [3][gather]time.Duration
	in, out, took := samples[0][:0], samples[1][:0], samples[2][:0]
	for _, chunk := range chunks[:c.passed] {
		if chunk.in < 0 {
			chunk.in = -chunk.in
			cadence.Break()
		}
		if d, ok := cadence.In(chunk.in); ok {
			in = append(in, d)
			j.in.add(d)
		}
		if chunk.out > 0 {
			d := chunk.out - chunk.in
			took = append(took, d)
			held.add(d)
		}
		if d, ok := cadence.Out(max(chunk.out, -chunk.out)); ok {
			out = append(out, d)
			j.out.add(d)
		}
	}
	to.recordAll(jitterIn[dir], in)
	to.recordAll(jitterOut[dir], out)
	to.recordAll(added[dir], took)
	copy(chunks, chunks[c.passed:])
	c.n, c.passed = c.n-c.passed, 0
	if gap := cadence.Median(); gap > 0 {
		j.gap = gap
	}
}

// settleAll works out both directions.
func (p *progress) settleAll(to sink) {
	p.settle(relay.Up, to)
	p.settle(relay.Down, to)
}
