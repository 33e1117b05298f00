package relay

import (
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// room is left before the bytes read into a buffer for those kept from before: at most a whole control frame but one
// byte.
const room = 6 + ws.MaxControlFramePayloadSize

// work is what a leg's input needs while something of it is incomplete: bytes of a header or of a control frame, the
// payload of a ping to answer, the message that is gathered for the handler.
type work struct {
	kept  [room]byte
	keptN int
	pong  [ws.MaxControlFramePayloadSize]byte
	pongN int
	tap   tap
}

func (l *loop) workOf(g *leg) *work {
	if g.work == 0 {
		g.work, _ = l.works.take()
		w := l.works.at(g.work)
		w.keptN, w.pongN, w.tap = 0, 0, tap{capture: w.tap.capture}
	}
	return l.works.at(g.work)
}

// tidy gives the work record back when nothing is in it.
func (l *loop) tidy(g *leg) {
	if g.work != 0 && g.flags&(fTap|fPong) == 0 && l.works.at(g.work).keptN == 0 {
		l.works.give(g.work)
		g.work = 0
	}
}

// input takes the n bytes that leg k sent, which stand in buf behind room bytes that input may use. They may be moved
// together there, but not changed.
func (l *loop) input(i uint32, k int, buf []byte, n int) {
	s := l.at(i)
	g := &s.leg[k]
	g.lastIn = l.tick
	if g.flags&(fStop|fCloseIn) != 0 {
		return
	}
	start := room
	if g.work != 0 {
		if w := l.works.at(g.work); w.keptN > 0 {
			start -= w.keptN
			copy(buf[start:], w.kept[:w.keptN])
			w.keptN = 0
			l.tidy(g)
		}
	}
	l.feed(i, s, k, buf[start:room+n])
	l.alike = 0 // of bytes that nobody takes any more
	l.sendWaiting(i, s, k)
	if s.failed {
		l.fail(i, s)
	}
}

// feed passes on the frames in b, which stand where the input of leg k was left. A whole chunk goes out in one write
// unless a frame of someone else must come in between: pings and pongs are cut out by moving what is behind them.
func (l *loop) feed(i uint32, s *session, k int, b []byte) {
	g := &s.leg[k]
	run, end := 0, 0 // b[run:end] is judged and not passed on yet
	for pos := 0; pos < len(b); {
		from := pos
		if rest := g.in.Remaining(); rest > 0 {
			pos += int(min(rest, int64(len(b)-pos)))
			if g.flags&fTap != 0 {
				l.tapMore(i, s, k, b[from:pos])
			}
			g.in.Advance(pos - from)
		} else {
			f, ok, err := g.in.NextWithin(b[pos:], wire.Role(k), l.config.limits())
			control := ok && f.Op.IsControl()
			if control && len(b)-pos < f.Header+int(f.Length) {
				ok = false // it is judged as a whole
			}
			switch {
			case !ok:
				l.forward(i, s, k, b[run:end])
				if err != nil {
					l.violated(i, s, k, err)
				} else {
					l.keepPart(g, b[pos:])
				}
				return
			case control:
				pos += f.Header + int(f.Length)
				if f.Op == ws.OpClose {
					l.closeFrame(i, s, k, b[run:end], b[from:pos], f)
					return
				}
				l.controlFrame(g, f, b[from+f.Header:pos])
				continue
			}
			payload := pos + f.Header
			pos = payload + int(min(f.Length, int64(len(b)-payload)))
			l.count(s, k)
			l.tapFrame(i, s, k, f, b[payload:pos])
			g.in.Advance(pos - payload)
		}
		if end != from {
			copy(b[end:], b[from:pos])
		}
		end += pos - from
		if g.in.AtFrame() && l.frameEnded(i, s, k, b[run:end]) {
			run = end
			if g.flags&fStop != 0 {
				return
			}
		}
	}
	l.forward(i, s, k, b[run:end])
}

// frameEnded does what is due between two frames. It reports whether it passed b on, which ends with the frame.
func (l *loop) frameEnded(i uint32, s *session, k int, b []byte) (passed bool) {
	g, o := &s.leg[k], &s.leg[1-k]
	if g.in.AtMessage() {
		if g.flags&fTap != 0 {
			l.tapEnd(i, s, k)
		}
		if o.flags&shut == 0 || s.state == parked {
			g.messages++
			if s.state != parked {
				l.totals.Messages[k]++
			}
		}
	}
	if s.state != parked && o.flags&(fCloseWant|fPong|fPing|fEvent) == 0 {
		return false
	}
	l.forward(i, s, k, b)
	if s.state == parked {
		if g.in.AtMessage() {
			l.early(i, s)
		}
		return true
	}
	if o.flags&fCloseWant != 0 {
		l.writeClose(i, s, 1-k)
	} else {
		l.sendBetween(i, s, 1-k)
	}
	return true
}

// count counts a frame of leg k if it will be passed on.
func (l *loop) count(s *session, k int) {
	if s.leg[1-k].flags&shut == 0 || s.state == parked {
		s.leg[k].frames++
		if s.state != parked {
			l.totals.Frames[k]++
		}
	}
}

// forward passes b on as it is.
func (l *loop) forward(i uint32, s *session, k int, b []byte) {
	o := &s.leg[1-k]
	if len(b) == 0 || o.flags&shut != 0 && s.state != parked {
		return
	}
	s.leg[k].bytes += uint64(len(b))
	if s.state != parked {
		l.totals.Bytes[k] += uint64(len(b))
	}
	l.out(i, s, 1-k, b)
	if l.blind {
		return
	}
	p := Passage{Readable: l.now, Alike: l.alike}
	l.alike = 0
	if o.spill == 0 {
		p.Written = l.clock()
	} else if p.Alike == 0 {
		return
	}
	l.passed(i, s, k, p)
}

// keepPart keeps the beginning of a frame until more of it comes: none of it may be passed on yet.
func (l *loop) keepPart(g *leg, b []byte) {
	if len(b) > 0 {
		w := l.workOf(g)
		w.keptN = copy(w.kept[:], b)
	}
}

// clock is the time since start.
func (l *loop) clock() time.Duration { return time.Since(l.start) }
