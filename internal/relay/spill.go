package relay

import "time"

// spareBuffers and spareSize bound the buffers of spills that are kept for the next.
const (
	spareBuffers = 8
	spareSize    = 128 << 10
)

// spill holds bytes that their socket did not take, or the prelude of a parked session.
type spill struct {
	b     []byte
	off   int
	since time.Duration // when the first of them was readable
}

// held is the number of bytes that wait to be written to g.
func (l *loop) held(g *leg) int {
	if g.spill == 0 {
		return 0
	}
	sp := l.spills.at(g.spill)
	return len(sp.b) - sp.off
}

// hold keeps b until the socket of leg k takes it.
func (l *loop) hold(i uint32, k int, b []byte) {
	s := l.at(i)
	g := &s.leg[k]
	if g.spill == 0 {
		var sp *spill
		g.spill, sp = l.spills.take()
		*sp = spill{since: l.now}
		if n := len(l.buffers); n > 0 {
			sp.b, l.buffers = l.buffers[n-1], l.buffers[:n-1]
		}
		l.setTimer(i, &g.stallAt, l.config.WriteStall)
		s.dirty = true
	}
	sp := l.spills.at(g.spill)
	sp.b = append(sp.b, b...)
}

// pending is what waits to be written to leg k. It is valid until hold or wrote.
func (l *loop) pending(i uint32, k int) []byte {
	g := &l.at(i).leg[k]
	if g.spill == 0 {
		return nil
	}
	sp := l.spills.at(g.spill)
	return sp.b[sp.off:]
}

// wrote takes note that the socket of leg k took n of the pending bytes.
func (l *loop) wrote(i uint32, k int, n int) {
	s := l.at(i)
	g := &s.leg[k]
	if g.spill == 0 {
		return
	}
	sp := l.spills.at(g.spill)
	sp.off += n
	if sp.off < len(sp.b) {
		if n > 0 {
			l.setTimer(i, &g.stallAt, l.config.WriteStall)
		}
		return
	}
	since := sp.since
	l.dropSpill(g)
	s.dirty = true
	if s.state == live && !l.blind {
		l.passed(i, s, 1-k, Passage{Readable: since, Written: l.clock()})
	}
	l.sendWaiting(i, s, k)
}

// dropSpill forgets what waits to be written to g.
func (l *loop) dropSpill(g *leg) {
	if g.spill == 0 {
		return
	}
	sp := l.spills.at(g.spill)
	if cap(sp.b) > 0 && cap(sp.b) <= spareSize && len(l.buffers) < spareBuffers {
		l.buffers = append(l.buffers, sp.b[:0])
	}
	*sp = spill{}
	l.spills.give(g.spill)
	g.spill, g.stallAt = 0, 0
}

// out writes b to leg k behind everything that was written to it before; a parked session's client leg is its prelude.
func (l *loop) out(i uint32, s *session, k int, b []byte) {
	if s.state == parked && k == client {
		l.keep(i, s, b)
		return
	}
	g := &s.leg[k]
	if g.flags&(fDead|fFinSent|fClosed) != 0 {
		return
	}
	n, err := l.d.write(i, k, b)
	if err != nil {
		l.broken(s, k)
		return
	}
	if n < len(b) {
		l.hold(i, k, b[n:])
	}
}

// broken takes note that nothing can be written to leg k any more. Its input may still hold something, such as the Close
// that came before a reset: the session ends when that has been read.
func (l *loop) broken(s *session, k int) {
	g := &s.leg[k]
	g.flags |= fDead
	l.dropSpill(g)
	s.dirty = true
}
