package relay

import (
	"bytes"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// roleTo is the role of the gateway towards leg k.
func roleTo(k int) wire.Role {
	if k == upstream {
		return wire.FromClient
	}
	return wire.FromServer
}

// controlFrame takes a ping or pong of leg g. A ping is answered here, a pong was asked for here.
func (l *loop) controlFrame(g *leg, f wire.Frame, payload []byte) {
	if f.Op != ws.OpPing {
		return
	}
	w := l.workOf(g)
	w.pongN = copy(w.pong[:], payload)
	ws.Cipher(w.pong[:w.pongN], f.Mask, 0)
	g.flags |= fPong
}

// sendWaiting writes the pong, the ping and the event that wait to go to leg k, if the stream stands between two frames and
// nothing is held up. Of several pings the last is answered (RFC 6455 section 5.5.3), so that a flood of them costs one
// write per chunk, and no memory behind a stalled reader.
func (l *loop) sendWaiting(i uint32, s *session, k int) {
	if s.leg[k].spill == 0 && s.leg[1-k].in.AtFrame() {
		l.sendBetween(i, s, k)
	}
}

// sendBetween is sendWaiting between two frames of a stream that flows: then it may be held up like the frames around
// it, of which there are as many as were read at once.
func (l *loop) sendBetween(i uint32, s *session, k int) {
	g := &s.leg[k]
	if g.flags&(shut|fCloseWant) != 0 {
		g.flags &^= fPong | fPing | fEvent
		l.tidy(g)
	}
	if g.flags&(fPong|fPing|fEvent) == 0 {
		return
	}
	frames := l.frame[:0]
	if g.flags&fPong != 0 {
		w := l.works.at(g.work)
		frames = wire.AppendFrame(frames, roleTo(k), ws.OpPong, w.pong[:w.pongN])
		g.pings++
	}
	if g.flags&fPing != 0 {
		frames = wire.AppendFrame(frames, roleTo(k), ws.OpPing, nil)
		if g.pongAfter != 0 && g.pongAt == 0 {
			l.setTick(i, &g.pongAt, l.tick+g.pongAfter)
		}
	}
	if g.flags&fEvent != 0 && s.leg[1-k].in.AtMessage() {
		frames = wire.AppendFrame(frames, roleTo(k), ws.OpText, l.events[i])
		delete(l.events, i)
		g.flags &^= fEvent
	}
	g.flags &^= fPong | fPing
	l.tidy(g)
	if len(frames) > 0 {
		l.out(i, s, k, frames)
	}
}

// closeFrame takes the Close of leg k, which stands in frame, behind the bytes before it. It goes on as it is unless
// its reason held a secret.
func (l *loop) closeFrame(i uint32, s *session, k int, before, frame []byte, f wire.Frame) {
	var payload [ws.MaxControlFramePayloadSize]byte
	p := payload[:copy(payload[:], frame[f.Header:])]
	ws.Cipher(p, f.Mask, 0)
	code, err := wire.CheckClosePayload(p)
	if err != nil {
		l.forward(i, s, k, before)
		l.violated(i, s, k, err)
		return
	}
	reason, changed := l.redact(p)
	l.count(s, k)
	if changed {
		l.forward(i, s, k, before)
		l.forward(i, s, k, wire.AppendClose(nil, wire.Role(k), code, reason))
	} else {
		n := len(before)
		before = before[:n+len(frame)] // of the same buffer, in front of frame
		copy(before[n:], frame)
		l.forward(i, s, k, before)
	}
	l.closed(i, s, k, code, reason)
}

// redact is the reason of a Close payload as it may be passed on and logged.
func (l *loop) redact(payload []byte) (reason string, changed bool) {
	if len(payload) <= 2 {
		return "", false
	}
	before := payload[2:]
	if l.config.Redact == nil {
		return string(before), false
	}
	after := l.config.Redact(bytes.Clone(before))
	return wire.CutReason(string(after)), !bytes.Equal(before, after)
}

// writeClose writes the Close that waits to go to leg k, behind the loss event if a message may stand here. The stream
// stands between two frames.
func (l *loop) writeClose(i uint32, s *session, k int) {
	g := &s.leg[k]
	c := l.outcomes.at(s.outcome).out[k]
	var frames []byte
	if c.event && s.loss != 0 && s.leg[1-k].in.AtMessage() {
		frames = wire.AppendFrame(frames, roleTo(k), ws.OpText, l.losses[s.loss-1])
	}
	frames = wire.AppendClose(frames, roleTo(k), c.code, c.reason)
	g.flags &^= fCloseWant
	g.closeAt = 0
	l.out(i, s, k, frames)
	g.flags |= fCloseOut
	l.awaitAnswer(i, s, k)
	s.dirty = true
}

// awaitAnswer bounds the wait for the upstream's answer to a Close. Towards a client the gateway is the server, which
// ends the connection at once (RFC 6455 section 7.1.1).
func (l *loop) awaitAnswer(i uint32, s *session, k int) {
	if k == upstream {
		l.setTimer(i, &s.leg[k].closeAt, l.config.CloseTimeout)
	}
}
