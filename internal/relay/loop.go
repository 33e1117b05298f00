package relay

import (
	"sync"
	"time"
	"unsafe"
)

// driver moves bytes for a loop. All but prepare and wake are called on the loop's goroutine, which is that of run.
type driver interface {
	// run works until the loop quits: events, commands (runCommands) and timers (sweep).
	run()
	// wake makes run look at the commands. Any goroutine may call it.
	wake()
	// prepare makes c ready for attach without changing its connection; abort undoes that, moved comes behind attach and
	// lets go of the connection. Any goroutine may call them.
	prepare(c *socket) error
	abort(c *socket)
	moved(c *socket)
	// attach makes c the socket of a leg, drop gives up a leg's socket.
	attach(i uint32, k int, c *socket)
	drop(i uint32, k int)
	// write takes what fits of b, in order behind what is spilled; fewer bytes without an error is a full socket.
	write(i uint32, k int, b []byte) (int, error)
	// notify writes what TLS wants to say before a FIN, finish sends the FIN. Nothing is spilled when finish is called.
	notify(i uint32, k int)
	finish(i uint32, k int)
	// interest sets what the leg waits for: input, or room for what is spilled.
	interest(i uint32, k int, read, write bool)
	// unsent is how many bytes the kernel holds that the peer of a leg has not taken; 0 where it does not tell.
	unsent(i uint32, k int) int
	// drain reads what already arrived on a leg, as far as it is wanted.
	drain(i uint32, k int)
	// trim gives back the memory of a leg that has been idle.
	trim(i uint32, k int)
	// arm asks for a sweep in d; negative for none.
	arm(d time.Duration)
}

// loop owns sessions: everything in it but the queue belongs to one goroutine.
type loop struct {
	config Config
	d      driver
	start  time.Time
	now    time.Duration // since start, at the last look
	tick   uint32

	slab
	spills   table[spill]
	works    table[work]
	waitings table[waiting]
	notes    notebook
	outcomes table[outcome]
	losses   [][]byte
	events   map[uint32][]byte // payloads that wait, by session
	buffers  [][]byte          // unused ones of spills

	wheel   wheel
	totals  Totals
	scratch [2][CaptureMax]byte
	tail    Tail   // of the message that is shown
	frame   []byte // control frames are rendered here

	kinds    []kind
	alike    int // counted messages in the bytes in hand that the handler was not shown
	passages [atOnce]Passage

	panicked error // the last panic of a handler

	blind    bool // nobody looks at what passes
	closing  bool // no new sessions
	quitting bool
	empty    chan struct{} // closed when closing and no session is left

	queue queue
}

func newLoop(config Config, start time.Time) *loop {
	l := &loop{config: config, start: start, empty: make(chan struct{}), frame: make([]byte, 0, 256)}
	l.refresh()
	l.wheel.last = l.tick
	return l
}

// open gives the loop its driver.
func (l *loop) open(goroutines bool) (err error) {
	if goroutines {
		l.d = newPortable(l)
		return nil
	}
	l.d, err = newDriver(l)
	return err
}

// refresh looks at the clock.
func (l *loop) refresh() {
	l.now = time.Since(l.start)
	l.tick = uint32(l.now/tickLength) + 1
}

// queue holds the commands for a loop.
type queue struct {
	mu     sync.Mutex
	items  []func()
	spare  []func()
	closed bool
}

// post runs f on the loop, later. It reports false when the loop has ended and f will not run.
func (l *loop) post(f func()) bool {
	q := &l.queue
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.items = append(q.items, f)
	first := len(q.items) == 1
	q.mu.Unlock()
	if first {
		l.d.wake()
	}
	return true
}

// call runs f on the loop and waits for it.
func (l *loop) call(f func()) bool {
	done := make(chan struct{})
	if !l.post(func() { defer close(done); f() }) {
		return false
	}
	<-done
	return true
}

// runCommands runs what was posted. It reports false when the loop is to end; nothing will be posted from then on.
func (l *loop) runCommands() bool {
	q := &l.queue
	for {
		q.mu.Lock()
		items := q.items
		q.items, q.spare = q.spare[:0], nil
		if len(items) == 0 && l.quitting {
			q.closed = true
		}
		q.mu.Unlock()
		for n, f := range items {
			f()
			items[n] = nil
		}
		q.mu.Lock()
		q.spare = items[:0]
		more, closed := len(q.items) > 0, q.closed
		q.mu.Unlock()
		if closed {
			return false
		}
		if !more && !l.quitting {
			return true
		}
	}
}

// shutDown refuses new sessions and ends those there are.
func (l *loop) shutDown() {
	l.closing = true
	l.refresh()
	l.each(func(i uint32, s *session) { l.endByGateway(i, s, 1001, "") })
	l.checkEmpty()
}

// abandonAll drops what is left and ends the loop.
func (l *loop) abandonAll() {
	l.each(func(i uint32, s *session) {
		l.noteOutcome(s, ByGateway, 1001, "", ErrClosed)
		for k := range s.leg {
			l.closeLeg(i, s, k)
		}
		l.release(i, s)
	})
	l.quitting = true
}

func (l *loop) checkEmpty() {
	if l.closing && l.used == 0 {
		select {
		case <-l.empty:
		default:
			close(l.empty)
		}
	}
}

func (l *loop) addTotals(sum *Totals) {
	l.each(func(i uint32, s *session) {
		switch s.state {
		case parked:
			sum.Parked++
		case live:
			sum.Live++
		default:
			sum.Lingering++
		}
		for k := range s.leg {
			if s.leg[k].flags&fClosed == 0 {
				sum.Descriptors++
			}
			sum.Held += l.held(&s.leg[k])
		}
	})
	for dir := range sum.Frames {
		sum.Frames[dir] += l.totals.Frames[dir]
		sum.Bytes[dir] += l.totals.Bytes[dir]
		sum.Messages[dir] += l.totals.Messages[dir]
	}
}

// add counts what a leg sent.
func (t *Totals) add(dir Dir, g *leg) {
	t.Frames[dir] += uint64(g.frames)
	t.Bytes[dir] += g.bytes
	t.Messages[dir] += uint64(g.messages)
}

func (l *loop) counters(s *session) (c Counters) {
	for k := range s.leg {
		g := &s.leg[k]
		c.Frames[k], c.Bytes[k], c.Messages[k] = uint64(g.frames), g.bytes, uint64(g.messages)
		c.PingsAnswered[k] = uint64(g.pings)
		c.Held += l.held(g)
		if g.notes != 0 {
			c.Working += int(unsafe.Sizeof(notes{}))
		}
		if g.work != 0 {
			c.Working += int(unsafe.Sizeof(work{}))
			if l.works.at(g.work).tap.capture != nil {
				c.Working += int(unsafe.Sizeof(capture{}))
			}
		}
	}
	return c
}
