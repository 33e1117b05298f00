package daemon

import (
	"time"
	"unsafe"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/internal/relay"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// detail adds to m what the basic view leaves out.
func (s *session) detail(m *rtdv1.Session, now look) {
	p, r := &now.progress, m.Responses
	r.FirstText, r.Turn, r.Created = p.firstText.message(), p.whole.message(), p.created.message()
	m.Setup, m.Usage = s.setup(), p.usageMessage()
	m.JitterUp, m.JitterDown = p.jitter[relay.Up].message(), p.jitter[relay.Down].message()
	m.StateBytes = stateBytes(p) + uint64(now.counters.Working)
	if p.firstFrame != 0 {
		m.FirstFrame = durationpb.New(s.sinceReady(p.firstFrame))
	}
	if p.last.done != 0 {
		m.LastTurn = s.turnMarks(p.last)
	}
}

// turnMarks are the marks of a response, as the session's clients count time.
func (s *session) turnMarks(t turn) *rtdv1.TurnMarks {
	mark := func(at time.Duration) *durationpb.Duration {
		if at == 0 {
			return nil
		}
		return durationpb.New(s.sinceAccept(at))
	}
	return &rtdv1.TurnMarks{
		Start: mark(t.start), Created: mark(t.created), FirstText: mark(t.text), FirstAudio: mark(t.audio), Done: mark(t.done),
		Interrupted: t.cut,
	}
}

// stateBytes is what rtd keeps of a session while no bytes of it pass.
func stateBytes(p *progress) uint64 {
	n := uint64(unsafe.Sizeof(session{})) + relay.SessionBytes
	if p.dialect == nil { // nothing was said yet
		return n
	}
	return n + uint64(unsafe.Sizeof(ledger{})) + uint64(p.activeBytes)
}

func (j jitter) message() *rtdv1.Jitter {
	m := &rtdv1.Jitter{In: j.in.message(), Out: j.out.message()}
	if j.gap > 0 {
		m.Gap = durationpb.New(j.gap)
	}
	return m
}

func (m measure) message() *rtdv1.Measure {
	return &rtdv1.Measure{Count: uint64(m.count), Last: durationpb.New(m.last), Max: durationpb.New(m.max), Total: durationpb.New(m.total)}
}

// responsesMessage has of the measures the one that a list shows.
func (p *progress) responsesMessage() *rtdv1.Responses {
	r := p.responses
	return &rtdv1.Responses{
		Started: uint64(r.started), Completed: uint64(r.completed), Cancelled: uint64(r.cancelled), Failed: uint64(r.failed), Incomplete: uint64(r.incomplete),
		Interrupted: uint64(r.interrupted), Errors: uint64(r.errors), Lost: uint64(r.lost), Open: uint64(r.open),
		FirstAudio: p.firstAudio.message(),
	}
}

func (p *progress) usageMessage() *rtdv1.Usage {
	u := p.usage
	return &rtdv1.Usage{
		Input: uint64(u.Input), Output: uint64(u.Output), Total: uint64(u.Total),
		InputText: uint64(u.InputText), InputAudio: uint64(u.InputAudio), InputImage: uint64(u.InputImage), InputCached: uint64(u.InputCached),
		OutputText: uint64(u.OutputText), OutputAudio: uint64(u.OutputAudio),
	}
}
