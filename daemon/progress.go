package daemon

import (
	"hash/maphash"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// progress follows what goes on in a session. The poller that owns the session writes it; others read a copy made there
// (session.look). Times are offsets on the relay's clock.
type progress struct {
	dialect  dialect.Dialect // nil before the first message
	unmarked unmarked
	*ledger  // nil before the first message
}

// ledger is what a session has done so far. It is made with the session's first message.
type ledger struct {
	active     *activity     // nil while nothing goes on
	firstFrame time.Duration // the client's first message; 0 is none

	pending   pending
	last      turn // the response that ended last
	responses responses
	usage     dialect.Usage

	created, firstText, firstAudio, whole measure
	jitter                                [2]jitter  // by direction, of audio
	added                                 [2]measure // by direction: how long what was read at once was in our hands

	activeBytes int // size of the activity, in a copy
}

// begun makes p ready for the first message.
func (p *progress) begun(d dialect.Dialect) {
	if p.ledger == nil {
		p.ledger, p.dialect = new(ledger), d
	}
}

// unmarked says which first events cannot come any more: then the id of an event that could be one is of no interest.
type unmarked struct{ noText, noAudio bool }

// pending is a message of the upstream that was begun and is read at its end.
type pending struct {
	event dialect.Event
	at    time.Duration
}

// responses counts by how they ended.
type responses struct {
	open                                              uint32 // begun and not ended
	started, completed, cancelled, failed, incomplete uint32
	interrupted, lost, errors                         uint32
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

// sink is where a mark also goes: the aggregates of the daemon.
type sink interface {
	record(stats.Phase, time.Duration)
	recordAll(phase stats.Phase, samples []time.Duration)
	count(stats.Counter, uint64)
	answered(t *turn, status string) // t is over; status is "" when the end of the session cut it off
}

// client takes the mark of a client's message. id is what it says about the response it means, if anything.
func (p *progress) client(ev dialect.Event, id []byte, at time.Duration, to sink) {
	switch ev {
	case dialect.EventAppend:
		p.chunk(relay.Up, at, to)
	case dialect.EventCommit:
		p.activate().turnEnd = at
	case dialect.EventResponseCreate:
		p.activate().ask(at)
	case dialect.EventCancel:
		if t := p.meant(id); t != nil { // without a response in progress there is nothing to cancel
			p.interrupt(t, to)
		}
	case dialect.EventTruncate: // what was heard is cut, so that the response may be over
		if t := p.meant(nil); t != nil {
			p.interrupt(t, to)
		} else if p.last.done != 0 {
			p.interrupt(&p.last, to)
		}
	}
}

// server takes the mark of an upstream's message. It reports whether the message is to be read (ended).
func (p *progress) server(ev dialect.Event, head, tail []byte, at time.Duration, to sink) (read bool) {
	switch ev {
	case dialect.EventSpeechStarted:
		if p.active != nil {
			p.active.turnEnd = 0
		}
	case dialect.EventSpeechStopped:
		p.activate().turnEnd = at
	case dialect.EventAudioDelta:
		if !p.unmarked.noAudio {
			p.first(ev, keyOf(p.dialect.ResponseID(head, tail)), at, to)
		}
		p.chunk(relay.Down, at, to)
	case dialect.EventTextDelta:
		if !p.unmarked.noText {
			p.first(ev, keyOf(p.dialect.ResponseID(head, tail)), at, to)
		}
	case dialect.EventResponseCreated, dialect.EventResponseDone, dialect.EventError:
		p.pending = pending{ev, at}
		return true
	}
	return false
}

// alike describes the messages that need no look while things are as they are, if one of event ev that begins with head is
// one of them.
func (p *progress) alike(ev dialect.Event, head []byte) (a relay.Alike) {
	switch ev {
	case dialect.EventAppend:
		a.Counted = true
	case dialect.EventAudioDelta:
		if !p.unmarked.noAudio {
			return a
		}
		a.Counted = true
	case dialect.EventTextDelta:
		if !p.unmarked.noText {
			return a
		}
	default:
		return a
	}
	o := p.dialect.Opening(ev, head)
	a.Prefix, a.Infix = o.Prefix, o.Infix
	return a
}

// ended takes what a message said that server wanted to be read.
func (p *progress) ended(d dialect.Detail, to sink) {
	ev, at := p.pending.event, p.pending.at
	p.pending = pending{}
	switch ev {
	case dialect.EventResponseCreated:
		if key := keyOf([]byte(d.ResponseID)); key == 0 || p.active.find(key) == nil {
			p.begin(key, at, to)
		}
	case dialect.EventResponseDone:
		p.done(d, at, to)
	case dialect.EventError:
		p.responses.errors++
		to.count(stats.Errors, 1)
		p.active.refused(d.ErrorCode)
	}
}

// begin opens a response.
func (p *progress) begin(key uint64, at time.Duration, to sink) *turn {
	a := p.activate()
	t, asked, lost := a.begin(key, at)
	p.unmarked = unmarked{}
	a.pace[relay.Down].broken = true
	p.responses.started++
	to.count(stats.Started, 1)
	p.lose(lost, to)
	if asked {
		p.created.add(at - t.start)
		to.record(stats.PhaseCreated, at-t.start)
	}
	return t
}

// first takes a text or audio event of a response, which may be its first.
func (p *progress) first(ev dialect.Event, key uint64, at time.Duration, to sink) {
	t := p.active.find(key)
	if t == nil {
		if key != 0 && key == p.last.key {
			return // a straggler
		}
		t = p.begin(key, at, to) // some upstreams do not say that they begin
	}
	mark, m, phase := &t.text, &p.firstText, stats.PhaseFirstText
	if ev == dialect.EventAudioDelta {
		mark, m, phase = &t.audio, &p.firstAudio, stats.PhaseFirstAudio
	}
	if *mark != 0 {
		return
	}
	*mark = at
	p.unmarked = p.active.unmarked()
	m.add(at - t.start)
	to.record(phase, at-t.start)
}

// done takes the end of a response.
func (p *progress) done(d dialect.Detail, at time.Duration, to sink) {
	counter, n, status := stats.Completed, &p.responses.completed, d.Status
	switch status {
	case "cancelled":
		counter, n = stats.Cancelled, &p.responses.cancelled
	case "failed":
		counter, n = stats.Failed, &p.responses.failed
	case "incomplete":
		counter, n = stats.Incomplete, &p.responses.incomplete
	default:
		status = "completed"
	}
	*n++
	to.count(counter, 1)
	p.bill(d.Usage, to)
	t, known := p.active.end(keyOf([]byte(d.ResponseID)))
	p.unmarked = p.active.unmarked()
	t.done = at
	if known {
		p.whole.add(at - t.start)
		to.record(stats.PhaseTurn, at-t.start)
	}
	if d.Status == "cancelled" && (d.StatusReason == "turn_detected" || d.StatusReason == "client_cancelled") {
		p.interrupt(&t, to)
	}
	if known {
		to.answered(&t, status)
	}
	p.last = t
	p.rest(at)
}

// interrupt counts a response that was cut short, once.
func (p *progress) interrupt(t *turn, to sink) {
	if t.cut {
		return
	}
	t.cut = true
	p.responses.interrupted++
	to.count(stats.Interrupted, 1)
}

// lose counts turns that will have no answer.
func (p *progress) lose(n int, to sink) {
	p.responses.lost += uint32(n)
	to.count(stats.Lost, uint64(n))
}

// over takes the end of the session. answers says that it is of the kind that gives answers.
func (p *progress) over(answers bool, to sink) {
	if p.active == nil {
		return
	}
	n := len(p.active.open) + len(p.active.asked)
	if n == 0 && p.active.turnEnd != 0 && answers {
		n = 1
	}
	p.lose(n, to)
	for i := range p.active.open {
		to.answered(&p.active.open[i], "")
	}
	p.release()
}

// bill adds the tokens of a response.
func (p *progress) bill(u dialect.Usage, to sink) {
	p.usage = sumUsage(p.usage, u)
	for _, part := range []struct {
		counter stats.Counter
		n       int64
	}{
		{stats.TokensInput, u.Input}, {stats.TokensOutput, u.Output}, {stats.TokensTotal, u.Total},
		{stats.TokensInputText, u.InputText}, {stats.TokensInputAudio, u.InputAudio},
		{stats.TokensInputImage, u.InputImage}, {stats.TokensInputCached, u.InputCached},
		{stats.TokensOutputText, u.OutputText}, {stats.TokensOutputAudio, u.OutputAudio},
	} {
		to.count(part.counter, uint64(part.n))
	}
}

func sumUsage(a, b dialect.Usage) dialect.Usage {
	return dialect.Usage{
		Input: a.Input + b.Input, Output: a.Output + b.Output, Total: a.Total + b.Total,
		InputText: a.InputText + b.InputText, InputAudio: a.InputAudio + b.InputAudio,
		InputImage: a.InputImage + b.InputImage, InputCached: a.InputCached + b.InputCached,
		OutputText: a.OutputText + b.OutputText, OutputAudio: a.OutputAudio + b.OutputAudio,
	}
}

// copy is p for others to read. It is called where p may be written, unless the session has
// ended.
func (p *progress) copy() progress {
	c := *p
	c.ledger = new(ledger)
	if p.ledger == nil {
		return c
	}
	*c.ledger = *p.ledger
	c.active = nil
	if a := p.active; a != nil {
		c.responses.open, c.activeBytes = uint32(len(a.open)), a.bytes()
	}
	return c
}

var idSeed = maphash.MakeSeed()

// keyOf stands for the id of a response, 0 for none: ids have no bound, and none is kept.
func keyOf(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return maphash.Bytes(idSeed, id) | 1
}
