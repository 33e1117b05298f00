package daemon

import (
	"math"
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// The kinds of samples that come with every chunk of audio.
const (
	sampleIn = iota // jitter as it came
	sampleOut
	sampleAdded
	sampleKinds
)

// batch is how many samples of a kind are gathered before they go where all sessions meet.
const batch = 16

// track follows the audio of one direction. What a chunk changes stands in few cache lines.
type track struct {
	chunks  uint32 // that came and were not passed on yet
	count   [sampleKinds]uint8
	cadence stats.Cadence
	samples [batch][sampleKinds]uint32 // ns
}

// samplePhases says where the samples of a direction go.
var samplePhases = [2][sampleKinds]stats.Phase{
	relay.Up:   {stats.PhaseJitterInUp, stats.PhaseJitterOutUp, stats.PhaseAddedUp},
	relay.Down: {stats.PhaseJitterInDown, stats.PhaseJitterOutDown, stats.PhaseAddedDown},
}

// jitter describes the chunks of one direction as they came and as they were passed on.
type jitter struct {
	in, out measure
	gap     time.Duration // the median, as it was last
}

// chunk takes a chunk of audio.
func (p *progress) chunk(dir relay.Dir, at time.Duration, to sink) {
	t := &p.activate().tracks[dir]
	t.chunks++
	if d, ok := t.cadence.In(at); ok {
		p.sample(dir, sampleIn, d, to)
	}
}

// passed takes note that what came in a direction at readable is written.
func (p *progress) passed(dir relay.Dir, readable, written time.Duration, to sink) {
	if p.active == nil || p.active.tracks[dir].chunks == 0 {
		to.record(samplePhases[dir][sampleAdded], written-readable)
		return
	}
	p.sample(dir, sampleAdded, written-readable, to)
	for t := &p.active.tracks[dir]; t.chunks > 0; t.chunks-- {
		if d, ok := t.cadence.Out(written); ok {
			p.sample(dir, sampleOut, d, to)
		}
	}
}

// sample keeps a sample until there is a batch of its kind.
func (p *progress) sample(dir relay.Dir, kind int, d time.Duration, to sink) {
	t := &p.active.tracks[dir]
	if d > math.MaxUint32 { // four seconds: held for a slow receiver
		to.record(samplePhases[dir][kind], d)
		return
	}
	n := t.count[kind]
	t.samples[n][kind] = uint32(max(d, 0))
	if t.count[kind] = n + 1; n+1 == batch {
		p.flushKind(dir, kind, to)
	}
}

// flush hands on what was gathered.
func (p *progress) flush(to sink) {
	for dir := range p.active.tracks {
		for kind := range sampleKinds {
			p.flushKind(relay.Dir(dir), kind, to)
		}
		if gap := p.active.tracks[dir].cadence.Median(); gap > 0 {
			p.jitter[dir].gap = gap
		}
	}
}

func (p *progress) flushKind(dir relay.Dir, kind int, to sink) {
	t := &p.active.tracks[dir]
	if t.count[kind] == 0 {
		return
	}
	var room [batch]uint32
	samples := t.gathered(kind, room[:0])
	to.recordAll(samplePhases[dir][kind], samples)
	p.jitter[dir].add(kind, samples)
	t.count[kind] = 0
}

// gathered appends the samples of a kind that were not handed on yet.
func (t *track) gathered(kind int, to []uint32) []uint32 {
	for n := range t.count[kind] {
		to = append(to, t.samples[n][kind])
	}
	return to
}

// add takes the samples that are of a session's own jitter.
func (j *jitter) add(kind int, samples []uint32) {
	m := &j.in
	switch kind {
	case sampleAdded: // the relay counts it
		return
	case sampleOut:
		m = &j.out
	}
	for _, d := range samples {
		m.add(time.Duration(d))
	}
}
