package daemon

import (
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/stats"
)

// progress is what a session has done so far. The poller that owns the session writes it; others read a copy made there
// (session.look). Times are offsets on the relay's clock.
type progress struct {
	turn      turn
	lastData  time.Duration // of either side
	responses responses
	usage     dialect.Usage

	firstText, firstAudio, whole measure
}

// turn holds the marks of the response in progress. Zero: not seen.
type turn struct {
	start time.Duration // the user's turn ended, or a response was asked for
	text  time.Duration
	audio time.Duration
}

// responses counts by how they ended.
type responses struct {
	started, completed, cancelled, failed, incomplete uint32
	interrupted, errors                               uint32
}

// measure describes a phase that repeats: plain integers, no histogram per session.
type measure struct {
	count            uint32
	last, max, total time.Duration
}

func (m *measure) add(d time.Duration) {
	m.count++
	m.last = d
	m.max = max(m.max, d)
	m.total += d
}

// record is where a mark also goes into the daemon's aggregates.
type record func(stats.Phase, time.Duration)

// client takes the mark of a client's message.
func (p *progress) client(ev dialect.Event, at time.Duration) {
	switch ev {
	case dialect.EventCommit, dialect.EventResponseCreate:
		p.turn = turn{start: at}
	case dialect.EventCancel, dialect.EventTruncate:
		p.responses.interrupted++
	}
}

// server takes the mark of an upstream's message.
func (p *progress) server(ev dialect.Event, at time.Duration, rec record) {
	switch ev {
	case dialect.EventSpeechStopped:
		p.turn = turn{start: at}
	case dialect.EventResponseCreated:
		p.responses.started++
		if p.turn.start == 0 {
			p.turn.start = at
		}
	case dialect.EventTextDelta:
		p.first(&p.turn.text, &p.firstText, stats.PhaseFirstText, at, rec)
	case dialect.EventAudioDelta:
		p.first(&p.turn.audio, &p.firstAudio, stats.PhaseFirstAudio, at, rec)
	case dialect.EventResponseDone:
		if p.turn.start != 0 {
			p.whole.add(at - p.turn.start)
			rec(stats.PhaseTurn, at-p.turn.start)
		}
		p.turn = turn{}
	case dialect.EventError:
		p.responses.errors++
	}
}

// first takes the first event of its kind in a turn whose start was seen.
func (p *progress) first(mark *time.Duration, m *measure, phase stats.Phase, at time.Duration, rec record) {
	if *mark != 0 || p.turn.start == 0 {
		return
	}
	*mark = at
	m.add(at - p.turn.start)
	rec(phase, at-p.turn.start)
}

// done takes what the end of a response says about itself.
func (p *progress) done(d dialect.Detail) {
	switch d.Status {
	case "cancelled":
		p.responses.cancelled++
	case "failed":
		p.responses.failed++
	case "incomplete":
		p.responses.incomplete++
	default:
		p.responses.completed++
	}
	if d.StatusReason == "turn_detected" {
		p.responses.interrupted++ // a client's own cancel was counted when it was sent
	}
	p.usage = sumUsage(p.usage, d.Usage)
}

func sumUsage(a, b dialect.Usage) dialect.Usage {
	return dialect.Usage{
		Input: a.Input + b.Input, Output: a.Output + b.Output, Total: a.Total + b.Total,
		InputText: a.InputText + b.InputText, InputAudio: a.InputAudio + b.InputAudio,
		InputImage: a.InputImage + b.InputImage, InputCached: a.InputCached + b.InputCached,
		OutputText: a.OutputText + b.OutputText, OutputAudio: a.OutputAudio + b.OutputAudio,
	}
}
