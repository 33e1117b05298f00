package relay

import (
	"fmt"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// tap gathers what the handler is shown of a message that is not in hand as a whole. Nothing waits for it: the bytes
// themselves were passed on long before.
type tap struct {
	op      ws.OpCode
	shown   bool // Head was called
	head    [HeadMax]byte
	headN   int
	capture *capture
}

// capture keeps the beginning and the end of a message.
type capture struct {
	first [CaptureMax]byte
	last  [2 * CaptureMax]byte
	lastN int
	total int
}

func (c *capture) add(b []byte) {
	if c.total < CaptureMax {
		copy(c.first[c.total:], b)
	}
	c.total += len(b)
	if len(b) > CaptureMax {
		b = b[len(b)-CaptureMax:]
	}
	if c.lastN+len(b) > len(c.last) {
		c.lastN = copy(c.last[:], c.last[c.lastN-CaptureMax:c.lastN])
	}
	c.lastN += copy(c.last[c.lastN:], b)
}

func (c *capture) halves() (first, last []byte) {
	if c.total <= CaptureMax {
		return c.first[:c.total], nil
	}
	return c.first[:], c.last[max(0, c.lastN-CaptureMax):c.lastN]
}

// Tail is the end of a message, which few need to see.
type Tail struct {
	b      []byte
	masked *wire.Parser // nil: b is in clear
	offset int          // of b behind the parser's position
	clear  *[CaptureMax]byte
}

// TailOf is the end of a whole message in clear.
func TailOf(message []byte) Tail { return Tail{b: message[max(0, len(message)-TailMax):]} }

// Bytes returns the last bytes of the message, unmasked: TailMax of them or all. nil when the whole message is not in hand.
func (t *Tail) Bytes() []byte {
	if t.masked == nil {
		return t.b
	}
	out := t.clear[:copy(t.clear[:], t.b)]
	t.masked.UnmaskAt(out, t.offset)
	return out
}

// tapFrame shows the handler the data frame f, of whose payload b is in hand.
func (l *loop) tapFrame(i uint32, s *session, k int, f wire.Frame, b []byte) {
	switch {
	case l.blind:
	case f.Op == ws.OpContinuation:
		if s.leg[k].flags&fTap != 0 {
			l.tapMore(i, s, k, b)
		}
	case s.state != parked && s.leg[1-k].flags&shut == 0 && !l.isAlike(&s.leg[k], b):
		l.tapBegin(i, s, k, f.Op, b, f.Fin && int64(len(b)) == f.Length)
	}
}

// tapBegin begins a message with b, which is all of it if whole is set.
func (l *loop) tapBegin(i uint32, s *session, k int, op ws.OpCode, b []byte, whole bool) {
	g := &s.leg[k]
	if whole {
		l.tapWhole(i, s, k, op, b)
		return
	}
	t := &l.workOf(g).tap
	g.flags |= fTap
	t.op, t.shown, t.headN = op, false, 0
	l.tapMore(i, s, k, b)
}

// tapWhole shows a message that is in hand.
func (l *loop) tapWhole(i uint32, s *session, k int, op ws.OpCode, b []byte) {
	head := l.clear(s, k, b, 0, min(len(b), HeadMax), 0)
	l.tail = TailOf(b)
	if k == client {
		l.tail.masked, l.tail.offset, l.tail.clear = &s.leg[k].in, len(b)-len(l.tail.b), &l.scratch[1]
	}
	if !l.showHead(i, s, k, op, head) {
		return
	}
	first := l.clear(s, k, b, 0, min(len(b), CaptureMax), 0)
	var last []byte
	if len(b) > CaptureMax {
		last = l.clear(s, k, b, len(b)-CaptureMax, len(b), 1)
	}
	l.showMessage(i, s, k, first, last)
}

// clear returns b[from:to], unmasked. b stands at the parser's position and is not changed.
func (l *loop) clear(s *session, k int, b []byte, from, to, scratch int) []byte {
	if k == upstream {
		return b[from:to:to]
	}
	out := l.scratch[scratch][:copy(l.scratch[scratch][:], b[from:to])]
	s.leg[k].in.UnmaskAt(out, from)
	return out
}

// tapMore adds b to the message that is being gathered.
func (l *loop) tapMore(i uint32, s *session, k int, b []byte) {
	t := &l.works.at(s.leg[k].work).tap
	for from := 0; from < len(b); from += CaptureMax {
		part := l.clear(s, k, b, from, min(len(b), from+CaptureMax), 0)
		if !t.shown {
			n := copy(t.head[t.headN:], part)
			t.headN += n
			if t.headN < HeadMax {
				return // all of b is in head
			}
			l.tail = Tail{}
			if !l.tapHead(i, s, k) {
				return
			}
			part = part[n:]
		}
		t.capture.add(part)
	}
}

// tapHead shows the head that was gathered, and l.tail. It reports whether the message is gathered on.
func (l *loop) tapHead(i uint32, s *session, k int) bool {
	g := &s.leg[k]
	t := &l.works.at(g.work).tap
	t.shown = true
	if !l.showHead(i, s, k, t.op, t.head[:t.headN]) {
		g.flags &^= fTap
		l.tidy(g)
		return false
	}
	if t.capture == nil {
		t.capture = new(capture)
	}
	t.capture.lastN, t.capture.total = 0, 0
	t.capture.add(t.head[:t.headN])
	return true
}

// tapEnd ends the message that is being gathered.
func (l *loop) tapEnd(i uint32, s *session, k int) {
	g := &s.leg[k]
	t := &l.works.at(g.work).tap
	if !t.shown {
		l.tail = TailOf(t.head[:t.headN])
		if !l.tapHead(i, s, k) {
			return
		}
	}
	first, last := t.capture.halves()
	l.showMessage(i, s, k, first, last)
	g.flags &^= fTap
	l.tidy(g)
}

func (l *loop) showOpened(i uint32, s *session) {
	defer l.guard(s)
	(*l.handler(i)).Opened()
}

// showHead shows head and l.tail.
func (l *loop) showHead(i uint32, s *session, k int, op ws.OpCode, head []byte) (capture bool) {
	l.tellInHand(i, s, k)
	if s.failed {
		return false
	}
	defer l.guard(s)
	g := &s.leg[k]
	capture, alike := (*l.handler(i)).Head(Dir(k), op, head, &l.tail, l.now)
	if alike.Prefix == "" {
		g.alike = 0
	} else {
		g.alike |= l.kind(alike)
	}
	return capture
}

func (l *loop) showMessage(i uint32, s *session, k int, first, last []byte) {
	l.tellInHand(i, s, k)
	if s.failed {
		return
	}
	defer l.guard(s)
	(*l.handler(i)).Message(Dir(k), first, last, l.now)
}

func (l *loop) showPassed(i uint32, s *session, k int, passages []Passage) {
	if s.failed {
		return
	}
	defer l.guard(s)
	(*l.handler(i)).Passed(Dir(k), passages)
}

// guard keeps a handler's panic to its session, which ends when the bytes in hand are passed on.
func (l *loop) guard(s *session) {
	if r := recover(); r != nil {
		s.failed, l.panicked = true, fmt.Errorf("%w: %v", ErrPanic, r)
	}
}

func callEnd(h Handler, end End) {
	defer func() { _ = recover() }()
	h.End(end)
}

func callGone(w Watcher, err error) {
	defer func() { _ = recover() }()
	w.Gone(err)
}

func callClosed(w Watcher) {
	defer func() { _ = recover() }()
	w.Closed()
}

func callEarly(w Watcher, op ws.OpCode, payload []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrPanic, r)
		}
	}()
	return w.Early(op, payload)
}
