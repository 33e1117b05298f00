package relay

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

const (
	// tickLength is how exact timers are.
	tickLength  = 20 * time.Millisecond
	defaultPing = 15 * time.Second
	// idleTime is how long a leg must have been silent before it is trimmed.
	idleTime = time.Second
	// slots is a power of two; a timer further away than slots ticks is looked at once per turn.
	slots = 1024
	// sweepLimit bounds the sessions looked at in one go.
	sweepLimit = 256
)

// wheel has each session with a timer in the slot of its next one. The last slot has those that are due.
type wheel struct {
	heads [slots + 1]int32 // 1 + index of a session
	used  [slots / 64]uint64
	last  uint32 // the tick up to which slots were emptied
	armed uint32 // the tick the driver was asked for; 0 is none
}

// ticks is d in ticks, rounded so that a timer is never early; 0 for none.
func ticks(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32((d+tickLength-1)/tickLength) + 1
}

// firstPing spreads the first pings of sessions that begin together over a quarter of the interval.
func firstPing(every uint32) uint32 { return every - rand.Uint32N(every/4+1) }

// put places session i in the slot of tick at.
func (w *wheel) put(l *loop, i uint32, s *session, at uint32) {
	slot := int(max(at, w.last+1) % slots)
	s.due = at
	w.link(l, i, s, slot)
	w.used[slot/64] |= 1 << (slot % 64)
}

func (w *wheel) link(l *loop, i uint32, s *session, slot int) {
	head := w.heads[slot]
	s.prev, s.next, s.slot = 0, head, int16(slot+1)
	if head != 0 {
		l.at(uint32(head - 1)).prev = int32(i + 1)
	}
	w.heads[slot] = int32(i + 1)
}

// remove takes session i out of its slot, if it is in one.
func (w *wheel) remove(l *loop, i uint32, s *session) {
	if s.slot == 0 {
		return
	}
	slot := int(s.slot - 1)
	if s.prev != 0 {
		l.at(uint32(s.prev - 1)).next = s.next
	} else {
		w.heads[slot] = s.next
	}
	if s.next != 0 {
		l.at(uint32(s.next - 1)).prev = s.prev
	}
	s.prev, s.next, s.slot, s.due = 0, 0, 0, 0
	if slot < slots && w.heads[slot] == 0 {
		w.used[slot/64] &^= 1 << (slot % 64)
	}
}

// next is the tick of the first slot in use; 0 for none.
func (w *wheel) next() uint32 {
	if w.heads[slots] != 0 {
		return w.last
	}
	from := w.last + 1
	for n := uint32(0); n < slots; {
		slot := (from + n) % slots
		if b := w.used[slot/64] >> (slot % 64); b != 0 {
			return from + n + uint32(bits.TrailingZeros64(b))
		}
		n += 64 - slot%64
	}
	return 0
}

// advance moves the sessions of the slots up to tick into the slot of those that are due.
func (w *wheel) advance(l *loop, tick uint32) {
	if tick-w.last > slots {
		w.last = tick - slots
	}
	for w.last < tick {
		w.last++
		slot := int(w.last % slots)
		for w.heads[slot] != 0 {
			i := uint32(w.heads[slot] - 1)
			s := l.at(i)
			due := s.due
			w.remove(l, i, s)
			w.link(l, i, s, slots)
			s.due = due
		}
	}
}

// setTimer sets a timer of session i to d from now, setTick to a tick.
func (l *loop) setTimer(i uint32, at *uint32, d time.Duration) { l.setTick(i, at, l.tick+ticks(d)) }

func (l *loop) setTick(i uint32, at *uint32, tick uint32) {
	*at = tick
	s := l.at(i)
	if s.due == 0 || tick < s.due {
		l.wheel.remove(l, i, s)
		l.wheel.put(l, i, s, tick)
	}
}

// sweep serves the sessions whose timer is due, a bounded number of them, and arms the driver for the next.
func (l *loop) sweep() {
	w := &l.wheel
	w.advance(l, l.tick)
	for range sweepLimit {
		if w.heads[slots] == 0 {
			break
		}
		i := uint32(w.heads[slots] - 1)
		s := l.at(i)
		gen, due := s.gen, s.due
		w.remove(l, i, s)
		if due <= l.tick {
			l.expire(i, s)
		}
		if l.valid(i, gen) {
			l.schedule(i, s)
		}
	}
	if at := w.next(); at != w.armed {
		w.armed = at
		if at == 0 {
			l.d.arm(-1)
		} else {
			l.d.arm(max(0, time.Duration(at-1)*tickLength-l.clock()))
		}
	}
}

// schedule puts session i in the slot of its first timer.
func (l *loop) schedule(i uint32, s *session) {
	var first uint32
	for k := range s.leg {
		g := &s.leg[k]
		for _, at := range [...]uint32{g.stallAt, g.closeAt, g.pingAt, g.pongAt, g.trim} {
			if at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	l.wheel.remove(l, i, s)
	if first != 0 {
		l.wheel.put(l, i, s, first)
	}
}

// expire serves the timers of session i that are due.
func (l *loop) expire(i uint32, s *session) {
	for k := range s.leg {
		g := &s.leg[k]
		if due(&g.stallAt, l.tick) && g.spill != 0 {
			l.giveUp(i, s, k, ErrWriteStall)
		}
		if due(&g.closeAt, l.tick) {
			l.waited(i, s, k)
		}
		if pinged := g.pongAt - g.pongAfter; due(&g.pongAt, l.tick) {
			l.checkPong(i, s, k, pinged)
		}
		if due(&g.pingAt, l.tick) {
			l.ping(i, s, k)
		}
		if due(&g.trim, l.tick) {
			l.trimIdle(i, k)
		}
	}
	l.settle(i, s)
}

// due reports whether a timer has run out, and clears it.
func due(at *uint32, tick uint32) bool {
	if *at == 0 || *at > tick {
		return false
	}
	*at = 0
	return true
}

// waited ends a wait of leg k at the end of a session.
func (l *loop) waited(i uint32, s *session, k int) {
	g := &s.leg[k]
	s.dirty = true
	switch {
	case s.state == parked: // for a client, with more in hand than is kept
		l.evict(i, s, ErrPrelude)
	case g.flags&fFinSent != 0: // for its FIN
		if l.stillSending(i, s, k) {
			l.setTimer(i, &g.closeAt, l.config.CloseTimeout)
		} else {
			l.closeLeg(i, s, k)
		}
	case g.flags&fCloseWant != 0: // for a frame to end
		g.flags = g.flags&^fCloseWant | fFin
	case g.flags&fCloseOut != 0: // for the answer to a Close
		g.flags |= fFin | fEOF
	case g.flags&fCloseIn != 0: // for the other leg to answer its Close
		l.answerFor(i, s, k, 0)
	}
}

// stillSending reports whether the peer of leg k goes on taking what the kernel holds for it: to close the socket now
// could lose that, as it does when the peer is sending.
func (l *loop) stillSending(i uint32, s *session, k int) bool {
	n := l.d.unsent(i, k)
	if n == 0 || s.outcome == 0 {
		return false
	}
	o := l.outcomes.at(s.outcome)
	if o.unsent[k] == 0 || n < o.unsent[k] {
		o.unsent[k], o.moved[k] = n, l.tick
	}
	return l.tick-o.moved[k] < ticks(l.config.WriteStall)
}

// checkPong gives up leg k if it was silent since the ping. While it is not read because the other leg is slow, its pong
// may well be there: then the write-stall deadline rules.
func (l *loop) checkPong(i uint32, s *session, k int, pinged uint32) {
	g := &s.leg[k]
	switch {
	case s.state == ending || g.lastIn >= pinged:
	case !l.wantsInput(s, k):
		l.setTick(i, &g.pongAt, l.tick+g.pongAfter)
	default:
		l.giveUp(i, s, k, ErrPongTimeout)
	}
}

func (l *loop) ping(i uint32, s *session, k int) {
	g := &s.leg[k]
	if s.state == ending {
		return
	}
	g.flags |= fPing
	l.sendWaiting(i, s, k)
	l.setTick(i, &g.pingAt, l.tick+g.pingEvery)
}

// usedMemory asks for a trim of leg k once it is idle.
func (l *loop) usedMemory(i uint32, k int) {
	if g := &l.at(i).leg[k]; g.trim == 0 {
		l.setTimer(i, &g.trim, idleTime)
	}
}

func (l *loop) trimIdle(i uint32, k int) {
	g := &l.at(i).leg[k]
	if l.tick-g.lastIn < ticks(idleTime)-1 {
		l.setTimer(i, &g.trim, idleTime)
		return
	}
	l.d.trim(i, k)
}
