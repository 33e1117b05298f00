package daemon

import (
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// Head implements relay.Handler: one message began.
func (s *session) Head(dir relay.Dir, _ ws.OpCode, head []byte, tail *relay.Tail, at time.Duration) (capture bool, alike relay.Alike) {
	s.heard.Store(int64(at))
	p := &s.progress
	if p.dialect == nil {
		p.begun(s.route.endpoint.dialect)
	}
	if dir == relay.Down {
		tail := tail.Bytes()
		ev := p.dialect.ServerEvent(head, tail)
		capture = p.server(ev, head, tail, at, s)
		return capture, p.alike(ev, head)
	}
	if p.firstFrame == 0 {
		p.firstFrame = at
		s.record(stats.PhaseFirstFrame, s.sinceReady(at))
	}
	ev := p.dialect.ClientEvent(head, nil)
	if ev == dialect.EventNone { // its type is not at the beginning
		ev = p.dialect.ClientEvent(head, tail.Bytes())
	}
	var id []byte
	if ev == dialect.EventCancel {
		id = p.dialect.ResponseID(head, tail.Bytes())
	}
	p.client(ev, id, at, s)
	return false, p.alike(ev, head)
}

// Message implements relay.Handler: the end of a message that progress wanted to be read, whole or its first and last
// bytes.
func (s *session) Message(_ relay.Dir, first, last []byte, _ time.Duration) {
	ev := s.progress.pending.event
	s.progress.ended(s.progress.dialect.Detail(ev, first, last), s)
	if ev == dialect.EventResponseDone {
		s.daemon.responses.Add(1)
	}
}

// Passed implements relay.Handler: so much was passed on.
func (s *session) Passed(dir relay.Dir, passages []relay.Passage) {
	if last := passages[len(passages)-1].Readable; last > time.Duration(s.heard.Load()) {
		s.heard.Store(int64(last))
	}
	s.progress.passed(dir, passages, s)
}

// record implements sink. What repeats with every chunk leaves no trace of the session.
func (s *session) record(p stats.Phase, d time.Duration) {
	if p >= stats.PhaseAddedUp {
		s.totals.Record(s.result, p, d)
		return
	}
	s.totals.RecordOf(s.id, time.Now(), s.result, p, d)
}

// recordAll implements sink.
func (s *session) recordAll(p stats.Phase, samples []time.Duration) {
	s.totals.RecordAll(s.result, p, samples)
}

// count implements sink.
func (s *session) count(c stats.Counter, n uint64) { s.totals.Count(s.result, c, n) }

// sinceAccept is the time from accept to a moment on the relay's clock.
func (s *session) sinceAccept(at time.Duration) time.Duration {
	return max(0, at-s.accepted.Sub(s.daemon.epoch))
}

// sinceReady is the time from the 101 to a moment on the relay's clock; 0 as well while the 101 is on its way.
func (s *session) sinceReady(at time.Duration) time.Duration {
	ready := time.Duration(s.ready.Load())
	if ready == 0 {
		return 0
	}
	return max(0, s.sinceAccept(at)-ready)
}

// turnsEnded takes the end of the session into account.
func (s *session) turnsEnded() {
	s.count(stats.Ended, 1)
	if s.progress.ledger != nil {
		s.progress.over(s.model != "", s)
	}
}

var _ relay.Handler = (*session)(nil)
