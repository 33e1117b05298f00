package relay

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// Session is a parked or live session. Its methods are safe for concurrent use.
type Session struct {
	l   *loop
	i   uint32
	gen uint32
}

// waiting is what a session needs while it is parked.
type waiting struct {
	watcher Watcher
	given   int // length of the prelude it came with
	message int // where the message that is arriving begins in the prelude
	full    bool
}

// Park gives a ready upstream to the engine, which watches it until Adopt or Session.Close: pings are answered and sent,
// a Close, a FIN or silence evicts it, early messages are kept behind the prelude. After an error u.Conn is closed.
func (e *Engine) Park(u Upstream, w Watcher) (*Session, error) {
	if u.PingInterval == 0 {
		u.PingInterval = defaultPing
	}
	l := e.loops[int(e.next.Add(1)-1)%len(e.loops)]
	sock, err := newSocket(u.Conn)
	if err == nil {
		err = l.d.prepare(sock)
	}
	if err != nil {
		_ = u.Conn.Close()
		return nil, err
	}
	session := &Session{l: l}
	if !l.call(func() { err = l.park(session, u, sock, w) }) {
		err = ErrClosed
	}
	if err != nil {
		l.d.abort(sock)
		_ = u.Conn.Close()
		return nil, err
	}
	l.d.moved(sock)
	return session, nil
}

func (l *loop) park(session *Session, u Upstream, sock *socket, w Watcher) error {
	if l.closing {
		return ErrClosed
	}
	var given leg
	if err := l.countPrelude(&given, u.Prelude); err != nil {
		return err
	}
	l.refresh()
	i := l.take()
	s := l.at(i)
	session.i, session.gen = i, s.gen
	s.state, s.dirty = parked, true
	s.leg[client].flags = fClosed
	var wt *waiting
	s.waiting, wt = l.waitings.take()
	*wt = waiting{watcher: w, given: len(u.Prelude), message: len(u.Prelude)}
	var sp *spill
	s.leg[client].spill, sp = l.spills.take()
	*sp = spill{b: u.Prelude}
	g := &s.leg[upstream]
	g.frames, g.messages, g.bytes = given.frames, given.messages, given.bytes
	l.plug(i, s, upstream, sock, u.PingInterval, u.PongTimeout)
	l.inject(i, upstream, u.Pending)
	l.settle(i, s)
	return nil
}

// countPrelude counts the frames of a prelude, which must be whole data messages.
func (l *loop) countPrelude(g *leg, b []byte) error {
	g.bytes = uint64(len(b))
	for len(b) > 0 {
		f, ok, err := g.in.Next(b, wire.FromServer, l.config.MaxMessage)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPrelude, err)
		}
		if !ok || f.Op.IsControl() || f.Length > int64(len(b)-f.Header) {
			return ErrPrelude
		}
		g.in.Advance(int(f.Length))
		g.frames++
		if g.in.AtMessage() {
			g.messages++
		}
		b = b[f.Header+int(f.Length):]
	}
	if !g.in.AtMessage() {
		return ErrPrelude
	}
	return nil
}

// plug joins a socket to a session.
func (l *loop) plug(i uint32, s *session, k int, sock *socket, every, pong time.Duration) {
	g := &s.leg[k]
	g.lastIn = l.tick
	g.pongAfter = ticks(pong)
	if every > 0 {
		g.pingEvery = ticks(every)
		l.setTick(i, &g.pingAt, l.tick+firstPing(g.pingEvery))
	}
	l.d.attach(i, k, sock)
}

// inject feeds bytes that were read before the loop had the socket.
func (l *loop) inject(i uint32, k int, b []byte) {
	if len(b) > 0 {
		buf := make([]byte, room+len(b))
		copy(buf[room:], b)
		l.input(i, k, buf, len(b))
	}
}

// keep adds bytes to the prelude. One that is full is not added to: the upstream is not read until a client comes, for
// which it may wait as long as a close takes. So a client that is about to come is served whatever the upstream has to say.
func (l *loop) keep(i uint32, s *session, b []byte) {
	sp := l.spills.at(s.leg[client].spill)
	sp.b = append(sp.b, b...)
	if w := l.waitings.at(s.waiting); !w.full && len(sp.b)-w.given > l.config.MaxPrelude {
		w.full = true
		l.setTimer(i, &s.leg[upstream].closeAt, l.config.CloseTimeout)
		s.dirty = true
	}
}

// early shows the watcher the message that the prelude ends with.
func (l *loop) early(i uint32, s *session) {
	if s.state != parked {
		return
	}
	w := l.waitings.at(s.waiting)
	prelude := l.spills.at(s.leg[client].spill).b
	op, payload := decode(prelude[w.message:])
	w.message = len(prelude)
	if err := callEarly(w.watcher, op, payload); err != nil {
		l.evict(i, s, err)
	}
}

// decode joins the payloads of the frames in b, the last of which may be incomplete.
func decode(b []byte) (op ws.OpCode, payload []byte) {
	var p wire.Parser
	for len(b) > 0 {
		f, ok, err := p.Next(b, wire.FromServer, 0)
		if !ok || err != nil {
			break
		}
		if f.Op != ws.OpContinuation {
			op = f.Op
		}
		n := min(f.Header+int(f.Length), len(b))
		payload = append(payload, b[f.Header:n]...)
		p.Advance(int(f.Length))
		b = b[n:]
	}
	return op, payload
}

// evict ends a parked session that is not fit to be used.
func (l *loop) evict(i uint32, s *session, err error) {
	if s.state != parked {
		return
	}
	l.gone(s, err)
	l.noteOutcome(s, ByGateway, ws.StatusGoingAway, "", err)
	l.wantClose(i, s, upstream, closing{code: ws.StatusGoingAway})
}

// gone ends the parked state of a session that died.
func (l *loop) gone(s *session, err error) {
	l.unpark(s)
	callGone(l.waitings.at(s.waiting).watcher, err)
}

// unpark ends the parked state, if it is parked.
func (l *loop) unpark(s *session) {
	if s.state != parked {
		return
	}
	s.state, s.dirty = ending, true
	l.dropSpill(&s.leg[client])
}

// dismiss returns the watcher of a session that needs it no more; nil if it has none.
func (l *loop) dismiss(s *session) (w Watcher) {
	if s.waiting == 0 {
		return nil
	}
	w = l.waitings.at(s.waiting).watcher
	*l.waitings.at(s.waiting) = waiting{}
	l.waitings.give(s.waiting)
	s.waiting = 0
	return w
}

// Adopt joins a client to a parked session: what the upstream sent already is looked at first, then the response and the
// prelude go to the client in one write and the client's early bytes to the upstream. After ErrGone the upstream was
// dead before a byte reached the client, and c.Conn is untouched and still the caller's; so it is after ErrResources, and
// the session is still parked. After ErrConn and ErrClosed c.Conn is closed. Otherwise c.Conn and h belong to the engine,
// and h.End will be called, even if the client is gone already.
func (s *Session) Adopt(c Client, h Handler) error {
	sock, err := newSocket(c.Conn)
	if err != nil {
		_ = c.Conn.Close()
		return err
	}
	if err := s.l.d.prepare(sock); err != nil {
		return fmt.Errorf("%w: %w", ErrResources, err)
	}
	if !s.l.call(func() { err = s.l.adopt(s.i, s.gen, c, sock, h) }) {
		err = ErrClosed
	}
	switch err {
	case nil:
		s.l.d.moved(sock)
	case ErrGone:
		s.l.d.abort(sock)
	default:
		s.l.d.abort(sock)
		_ = c.Conn.Close()
	}
	return err
}

func (l *loop) adopt(i, gen uint32, c Client, sock *socket, h Handler) error {
	if !l.valid(i, gen) || l.at(i).state != parked {
		return ErrGone
	}
	l.refresh()
	l.d.drain(i, upstream)
	s := l.at(i)
	if !l.valid(i, gen) || s.state != parked {
		return ErrGone
	}
	// The prelude's memory is a spill's from unpark on: what is needed of it is copied before.
	prelude, message := l.spills.at(s.leg[client].spill).b, l.waitings.at(s.waiting).message
	first := append(bytes.Clone(c.Response), prelude...)
	op, begun := decode(prelude[message:])
	l.unpark(s)
	l.dismiss(s)
	s.state = live
	l.totals.add(Down, &s.leg[upstream]) // the prelude
	s.leg[client] = leg{}
	s.leg[upstream].closeAt = 0
	s.loss = l.lossEvent(c.LossEvent)
	*l.handler(i) = h
	if c.PingInterval == 0 {
		c.PingInterval = defaultPing
	}
	l.plug(i, s, client, sock, c.PingInterval, c.PongTimeout)
	l.showOpened(i, s)
	l.out(i, s, client, first)
	if !s.leg[upstream].in.AtMessage() { // the handler sees it from its first byte
		l.tapBegin(i, s, upstream, op, begun, false)
	}
	if s.failed {
		l.fail(i, s)
	}
	l.inject(i, client, c.Early)
	s.dirty = true
	l.settle(i, s)
	return nil
}

// lossEvent numbers the distinct loss events.
func (l *loop) lossEvent(b []byte) int32 {
	if len(b) == 0 {
		return 0
	}
	for n, known := range l.losses {
		if bytes.Equal(known, b) {
			return int32(n + 1)
		}
	}
	l.losses = append(l.losses, bytes.Clone(b))
	return int32(len(l.losses))
}

// Inject sends the client of a live session a text message of our own, as soon as no message of the upstream is under way.
// It returns at once; an event that waits is replaced, and lost with its session. payload is the engine's from the call on.
func (s *Session) Inject(payload []byte) {
	s.l.post(func() {
		if !s.l.valid(s.i, s.gen) || s.l.at(s.i).state != live {
			return
		}
		l, one := s.l, s.l.at(s.i)
		l.refresh()
		if l.events == nil {
			l.events = map[uint32][]byte{}
		}
		l.events[s.i] = payload
		one.leg[client].flags |= fEvent
		l.sendWaiting(s.i, one, client)
		l.settle(s.i, one)
	})
}

// Close ends the session: a parked one upstream, a live one on both legs, with a Close as soon as no frame is under way,
// then a FIN. It returns at once. A second call, or one after the end, does nothing.
func (s *Session) Close(code ws.StatusCode, reason string) {
	s.l.post(func() {
		if s.l.valid(s.i, s.gen) {
			s.l.refresh()
			s.l.endByGateway(s.i, s.l.at(s.i), code, reason)
		}
	})
}

// Counters asks the loop for the session's counters. They are zero once End was called.
func (s *Session) Counters() (c Counters) {
	s.l.call(func() {
		if s.l.valid(s.i, s.gen) {
			c = s.l.counters(s.l.at(s.i))
		}
	})
	return c
}
