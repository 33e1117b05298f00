package daemon

import (
	"sync"
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// pace follows the chunks of audio of one direction.
type pace struct {
	stats.Cadence
	waiting int  // chunks that came and are not passed on
	broken  bool // the next chunk begins another stream
}

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

// samples gathers what is measured of a phase, for the aggregates to take at once.
type samples struct {
	n    int
	list [32]time.Duration
}

func (s *samples) add(d time.Duration, phase stats.Phase, to sink) {
	if s.n == len(s.list) {
		s.flush(phase, to)
	}
	s.list[s.n] = d
	s.n++
}

func (s *samples) flush(phase stats.Phase, to sink) {
	to.recordAll(phase, s.list[:s.n])
	s.n = 0
}

// batch is what is measured of the passages of a direction.
type batch struct{ in, out, held samples }

// A sink may keep what it is given as far as the compiler knows: that is not to be made anew each time.
var batches = sync.Pool{New: func() any { return new(batch) }}

// flush gives everything to the aggregates, and b away.
func (b *batch) flush(dir relay.Dir, to sink) {
	b.in.flush(jitterIn[dir], to)
	b.out.flush(jitterOut[dir], to)
	b.held.flush(added[dir], to)
	batches.Put(b)
}

// chunk takes a chunk of audio that came alone.
func (p *progress) chunk(dir relay.Dir, at time.Duration, to sink) {
	b := batches.Get().(*batch)
	p.chunks(dir, 1, at, &b.in, to)
	b.flush(dir, to)
}

// chunks takes chunks of audio that came at once.
func (p *progress) chunks(dir relay.Dir, n int, at time.Duration, in *samples, to sink) {
	c, j := &p.activate().pace[dir], &p.jitter[dir]
	if c.broken {
		c.Break()
		c.broken, c.waiting = false, 0
	}
	c.waiting += n
	for range n {
		if d, ok := c.In(at); ok {
			j.in.add(d)
			in.add(d, jitterIn[dir], to)
		}
	}
	if gap := c.Median(); gap > 0 {
		j.gap = gap
	}
}

// passed takes note of what was passed on in a direction.
func (p *progress) passed(dir relay.Dir, passages []relay.Passage, to sink) {
	b := batches.Get().(*batch)
	for _, passage := range passages {
		if passage.Alike > 0 {
			p.chunks(dir, passage.Alike, passage.Readable, &b.in, to)
		}
		if passage.Written == 0 {
			continue
		}
		d := passage.Written - passage.Readable
		b.held.add(d, added[dir], to)
		if p.ledger == nil { // what came before the first message went out late
			continue
		}
		p.added[dir].add(d)
		if p.active == nil {
			continue
		}
		for c := &p.active.pace[dir]; c.waiting > 0; c.waiting-- {
			if d, ok := c.Out(passage.Written); ok {
				p.jitter[dir].out.add(d)
				b.out.add(d, jitterOut[dir], to)
			}
		}
	}
	b.flush(dir, to)
}
