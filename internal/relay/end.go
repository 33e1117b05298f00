package relay

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// outcome is what is known of a session that ends.
type outcome struct {
	end     End
	out     [2]closing       // what is to be written to each leg
	arrived [2]ws.StatusCode // what the Close of each leg said
	unsent  [2]int           // bytes the kernel held for each leg when it was last seen to take some
	moved   [2]uint32        // tick of that
}

type closing struct {
	code   ws.StatusCode
	reason string
	event  bool // the loss event goes first
}

// noteOutcome keeps the first cause of a session's end. It reports whether this is the first.
func (l *loop) noteOutcome(s *session, by Side, code ws.StatusCode, reason string, err error) bool {
	s.dirty = true
	if s.outcome != 0 {
		return false
	}
	var o *outcome
	s.outcome, o = l.outcomes.take()
	*o = outcome{end: End{By: by, Code: code, Reason: reason, Err: err}}
	if s.state == live {
		s.state = ending
	}
	return true
}

// wantClose asks for a Close to leg k as soon as the stream stands between two frames, then a FIN.
func (l *loop) wantClose(i uint32, s *session, k int, c closing) {
	g := &s.leg[k]
	if g.flags&(shut|fCloseWant) != 0 {
		return
	}
	l.outcomes.at(s.outcome).out[k] = c
	g.flags |= fCloseWant
	l.setTimer(i, &g.closeAt, l.config.CloseTimeout)
	s.dirty = true
}

// lostCode is what the other leg is told when leg k is lost or breaks the protocol.
func lostCode(k int) ws.StatusCode {
	if k == client {
		return ws.StatusGoingAway
	}
	return ws.StatusInternalServerError
}

// closed goes on behind a Close of leg k that was passed on if it could be.
func (l *loop) closed(i uint32, s *session, k int, code ws.StatusCode, reason string) {
	g, o := &s.leg[k], &s.leg[1-k]
	g.flags |= fCloseIn
	if s.state == parked {
		l.gone(s, &CloseError{Code: code, Reason: reason})
	}
	l.noteOutcome(s, Side(k), code, reason, nil)
	l.outcomes.at(s.outcome).arrived[k] = code
	if o.flags&(shut|fCloseWant) == 0 {
		o.flags |= fCloseOut
		l.awaitAnswer(i, s, 1-k)
	}
	switch {
	case g.flags&(shut|fCloseWant) != 0:
	case o.flags&fClosed != 0: // nobody else will answer
		l.wantClose(i, s, k, closing{code: code})
	default:
		l.setTimer(i, &g.closeAt, l.config.CloseTimeout)
	}
}

// violated ends a session whose leg k broke the protocol.
func (l *loop) violated(i uint32, s *session, k int, err error) {
	code := wire.CloseCode(err)
	s.leg[k].flags |= fStop
	if s.state == parked {
		l.gone(s, err)
	}
	l.noteOutcome(s, Side(k), code, "", err)
	l.wantClose(i, s, k, closing{code: code})
	l.wantClose(i, s, 1-k, closing{code: lostCode(k)})
}

// inputEnded takes note that nothing more comes from leg k: io.EOF for a FIN, anything else for a connection that is
// beyond use in both directions.
func (l *loop) inputEnded(i uint32, k int, err error) {
	s := l.at(i)
	g := &s.leg[k]
	if g.flags&(fEOF|fClosed) != 0 {
		return
	}
	g.flags |= fEOF
	if err != io.EOF {
		l.broken(s, k)
	}
	if s.state == parked {
		l.gone(s, err)
	}
	if l.noteOutcome(s, Side(k), ws.StatusAbnormalClosure, "", err) {
		l.wantClose(i, s, 1-k, closing{code: lostCode(k), event: k == upstream})
	} else {
		l.answerFor(i, s, 1-k, lostCode(k))
	}
	if g.flags&(fCloseWant|fCloseOut|fCloseIn) == 0 {
		g.flags |= fFin
	}
	s.dirty = true
}

// answerFor answers the Close of leg k in place of the other, who will not; code is for a leg that sent none.
func (l *loop) answerFor(i uint32, s *session, k int, code ws.StatusCode) {
	if s.leg[k].flags&fCloseIn != 0 {
		code = l.outcomes.at(s.outcome).arrived[k] // RFC 6455 section 5.5.1: the answer echoes the code
	}
	l.wantClose(i, s, k, closing{code: code})
}

// giveUp ends a session whose leg k is there but of no use: silent, or taking nothing.
func (l *loop) giveUp(i uint32, s *session, k int, err error) {
	if err == ErrWriteStall {
		l.broken(s, k)
		l.inputEnded(i, k, err)
		return
	}
	s.leg[k].flags |= fStop
	if s.state == parked {
		l.gone(s, err)
	}
	l.noteOutcome(s, Side(k), ws.StatusAbnormalClosure, "", err)
	l.wantClose(i, s, k, closing{code: ws.StatusGoingAway})
	l.wantClose(i, s, 1-k, closing{code: lostCode(k), event: k == upstream})
}

// endByGateway is Session.Close on the loop.
func (l *loop) endByGateway(i uint32, s *session, code ws.StatusCode, reason string) {
	if s.outcome != 0 {
		return
	}
	if s.state == parked {
		l.unpark(s)
	}
	l.noteOutcome(s, ByGateway, code, reason, nil)
	l.wantClose(i, s, client, closing{code: code, reason: reason})
	l.wantClose(i, s, upstream, closing{code: code, reason: reason})
	l.settle(i, s)
}

// fail ends a session whose handler panicked.
func (l *loop) fail(i uint32, s *session) {
	if !l.noteOutcome(s, ByGateway, ws.StatusInternalServerError, "", l.panicked) {
		return
	}
	l.wantClose(i, s, client, closing{code: ws.StatusInternalServerError})
	l.wantClose(i, s, upstream, closing{code: ws.StatusGoingAway})
}

// contain ends the one session that a fault of this package met: its sockets are dropped, the others go on. It is
// deferred around what is done for a session.
func (l *loop) contain(i, gen uint32) {
	fault := recover()
	if fault == nil {
		return
	}
	if !l.valid(i, gen) {
		panic(fault) // no session to blame
	}
	s := l.at(i)
	err := fmt.Errorf("%w: %v\n%s", ErrPanic, fault, debug.Stack())
	for k := range s.leg {
		s.leg[k].spill, s.leg[k].work = 0, 0 // not to be trusted; what they name is lost to the tables
	}
	if s.state == parked {
		l.gone(s, err)
	}
	l.noteOutcome(s, ByGateway, ws.StatusInternalServerError, "", err)
	for k := range s.leg {
		l.closeLeg(i, s, k)
	}
	l.release(i, s)
}

// settle takes the steps that became possible: a Close at the end of a frame, a FIN behind the last byte, the end of a
// socket that has ended both ways, the end of the session. It is called after everything that may have changed a leg.
func (l *loop) settle(i uint32, s *session) {
	if !s.dirty {
		return
	}
	for s.dirty {
		s.dirty = false
		for k := range s.leg {
			if s.leg[k].flags&fClosed == 0 {
				l.settleLeg(i, s, k)
			}
		}
	}
	if s.state != parked && s.leg[client].flags&s.leg[upstream].flags&fClosed != 0 {
		l.release(i, s)
		return
	}
	for k := range s.leg {
		if g := &s.leg[k]; g.flags&fClosed == 0 {
			l.d.interest(i, k, l.wantsInput(s, k), g.spill != 0)
		}
	}
}

func (l *loop) settleLeg(i uint32, s *session, k int) {
	g, o := &s.leg[k], &s.leg[1-k]
	if g.flags&fCloseWant != 0 && g.flags&fDead == 0 {
		switch {
		case o.in.AtFrame():
			l.writeClose(i, s, k)
		case o.flags&(fEOF|fStop|fCloseIn|fClosed) != 0: // the frame will never end: nothing can be put in
			g.flags = g.flags&^fCloseWant | fFin
		}
	}
	if g.flags&fCloseOut != 0 && (k == client || g.flags&(fCloseIn|fEOF) != 0) {
		g.flags |= fFin
	}
	if g.flags&fFin != 0 && g.flags&(fFinSent|fDead) == 0 {
		l.end(i, s, k)
	}
	if g.flags&fEOF != 0 && g.flags&(fFinSent|fDead) != 0 {
		l.closeLeg(i, s, k)
	}
}

// end sends the FIN of leg k once nothing waits before it, and bounds the wait for the peer's.
func (l *loop) end(i uint32, s *session, k int) {
	g := &s.leg[k]
	if g.flags&fNotified == 0 && g.spill == 0 {
		g.flags |= fNotified
		l.d.notify(i, k)
	}
	if g.spill == 0 && g.flags&fDead == 0 {
		l.d.finish(i, k)
		g.flags |= fFinSent
		l.setTimer(i, &g.closeAt, l.config.CloseTimeout)
	}
}

// wantsInput reports whether leg k is to be read: not while the other side is slow to take what was read. The kernel
// keeps what has arrived, even behind a reset.
func (l *loop) wantsInput(s *session, k int) bool {
	g, o := &s.leg[k], &s.leg[1-k]
	switch {
	case g.flags&(fEOF|fClosed) != 0:
		return false
	case s.state == parked:
		return !l.waitings.at(s.waiting).full
	case g.flags&(fStop|fCloseIn) != 0, o.flags&shut != 0:
		return true
	}
	return o.spill == 0
}

// closeLeg gives up the socket of leg k.
func (l *loop) closeLeg(i uint32, s *session, k int) {
	g := &s.leg[k]
	if g.flags&fClosed != 0 || s.state == parked && k == client {
		return
	}
	l.dropSpill(g)
	g.flags = g.flags&^(fTap|fPong|fPing|fEvent|fCloseWant) | fClosed | fEOF
	if g.work != 0 {
		l.works.at(g.work).keptN = 0
		l.tidy(g)
	}
	g.closeAt, g.stallAt, g.pingAt, g.pongAt, g.trim = 0, 0, 0, 0, 0
	l.d.drop(i, k)
	s.dirty = true
}

// release ends a session without sockets.
func (l *loop) release(i uint32, s *session) {
	l.unpark(s)
	for k := range s.leg {
		l.tell(i, s, k)
		l.dropNotes(&s.leg[k])
	}
	end := End{By: ByGateway}
	if s.outcome != 0 {
		end = l.outcomes.at(s.outcome).end
		*l.outcomes.at(s.outcome) = outcome{}
		l.outcomes.give(s.outcome)
	}
	end.Counters = l.counters(s)
	delete(l.events, i)
	h, w := *l.handler(i), l.dismiss(s)
	l.wheel.remove(l, i, s)
	l.give(i)
	if h != nil {
		callEnd(h, end)
	}
	if w != nil {
		callClosed(w)
	}
	l.checkEmpty()
}
