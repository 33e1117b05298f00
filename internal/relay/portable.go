package relay

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// portableRead is the buffer of a reader, portableWrite the most that is written at once, so that a slow peer's progress
// shows.
const (
	portableRead  = 16 << 10
	portableWrite = 16 << 10
)

// portable drives a loop with goroutines: one reads each socket, one more writes while something waits to be written.
// They only move bytes: everything is decided on the loop, to which they post what happened.
type portable struct {
	*loop
	signal  chan struct{}
	timer   *time.Timer
	sockets table[portableLeg]
	again   []ref // legs with a chunk that may be taken now
	wg      sync.WaitGroup
}

// ref names a leg as it was when it was noted.
type ref struct {
	i, gen uint32
	k      int
}

// portableLeg is the socket of a leg.
type portableLeg struct {
	*socket
	conn    net.Conn
	resume  chan struct{} // tells the reader to read on; closed with the socket
	writing bool

	// What the reader brought and the loop did not take yet.
	full bool
	buf  []byte
	n    int
	err  error
}

func newPortable(l *loop) *portable {
	p := &portable{loop: l, signal: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

func (p *portable) run() {
	defer p.wg.Wait()
	for {
		select {
		case <-p.signal:
			p.refresh()
			if !p.runCommands() {
				return
			}
		case <-p.timer.C:
			p.wheel.armed = 0
		}
		p.refresh()
		for len(p.again) > 0 {
			r := p.again[len(p.again)-1]
			p.again = p.again[:len(p.again)-1]
			p.takeAgain(r)
		}
		p.sweep()
	}
}

func (p *portable) wake() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *portable) prepare(*socket) error  { return nil }
func (p *portable) abort(*socket)          {}
func (p *portable) moved(*socket)          {}
func (p *portable) unsent(uint32, int) int { return 0 }
func (p *portable) drain(uint32, int)      {} // the reader is never far behind
func (p *portable) trim(uint32, int)       {}
func (p *portable) notify(uint32, int)     {} // finish does it

func (p *portable) attach(i uint32, k int, c *socket) {
	s := p.at(i)
	n, t := p.sockets.take()
	s.leg[k].io = n
	*t = portableLeg{socket: c, conn: c.tcp, resume: make(chan struct{}, 1)}
	if c.tls != nil {
		t.conn = c.tls
	}
	r, conn, resume := ref{i, s.gen, k}, t.conn, t.resume
	p.wg.Go(func() { p.reader(r, conn, resume) })
}

// reader brings one chunk at a time to the loop.
func (p *portable) reader(r ref, conn net.Conn, resume chan struct{}) {
	buf := make([]byte, room+portableRead)
	for {
		n, err := conn.Read(buf[room:])
		if !p.post(func() { p.arrived(r, buf, n, err) }) {
			return
		}
		if _, open := <-resume; !open || err != nil {
			return
		}
	}
}

// leg returns the socket that r names, nil when it is closed.
func (p *portable) leg(r ref) *portableLeg {
	if !p.valid(r.i, r.gen) {
		return nil
	}
	n := p.at(r.i).leg[r.k].io
	if n == 0 {
		return nil
	}
	return p.sockets.at(n)
}

func (p *portable) arrived(r ref, buf []byte, n int, err error) {
	defer p.contain(r.i, r.gen)
	if t := p.leg(r); t != nil {
		t.full, t.buf, t.n, t.err = true, buf, n, err
		p.take(r)
	}
}

// takeAgain takes what lay there when the leg was not to be read. A fault ends its session and not the loop.
func (p *portable) takeAgain(r ref) {
	defer p.contain(r.i, r.gen)
	p.take(r)
}

// take hands over what the reader brought, if the leg is to be read now.
func (p *portable) take(r ref) {
	t := p.leg(r)
	if t == nil || !t.full {
		return
	}
	s := p.at(r.i)
	if t.n > 0 && p.wantsInput(s, r.k) {
		n := t.n
		t.n = 0
		p.input(r.i, r.k, t.buf, n)
	}
	if t.n == 0 && t.err == nil {
		t.full = false
		t.resume <- struct{}{}
	}
	if t.n == 0 && t.err != nil && p.wantsInput(s, r.k) {
		t.full = false
		p.inputEnded(r.i, r.k, t.err)
	}
	p.settle(r.i, s)
}

func (p *portable) interest(i uint32, k int, read, write bool) {
	s := p.at(i)
	t := p.sockets.at(s.leg[k].io)
	if read && t.full {
		p.again = append(p.again, ref{i, s.gen, k})
		p.wake()
	}
	if write && !t.writing {
		p.startWrite(ref{i, s.gen, k}, t)
	}
}

// write leaves everything to a writer, which may block.
func (p *portable) write(uint32, int, []byte) (int, error) { return 0, nil }

func (p *portable) startWrite(r ref, t *portableLeg) {
	b := p.pending(r.i, r.k)
	b = bytes.Clone(b[:min(len(b), portableWrite)]) // the loop may add to it or drop it meanwhile
	t.writing = true
	conn := t.conn
	p.wg.Go(func() {
		n, err := conn.Write(b)
		p.post(func() { p.written(r, n, err) })
	})
}

func (p *portable) written(r ref, n int, err error) {
	defer p.contain(r.i, r.gen)
	t := p.leg(r)
	if t == nil {
		return
	}
	t.writing = false
	s := p.at(r.i)
	if err != nil {
		p.broken(s, r.k)
	} else {
		p.wrote(r.i, r.k, n)
	}
	if s.leg[r.k].spill != 0 && !t.writing {
		p.startWrite(r, t)
	}
	p.settle(r.i, s)
}

func (p *portable) finish(i uint32, k int) {
	t := p.sockets.at(p.at(i).leg[k].io)
	if t.tls == nil {
		_ = t.tcp.CloseWrite() // fails only where the connection is gone already
		return
	}
	tcp, tls := t.tcp, t.tls
	p.wg.Go(func() { // the alert may have to wait for room
		_ = tls.CloseWrite()
		_ = tcp.CloseWrite()
	})
}

func (p *portable) drop(i uint32, k int) {
	g := &p.at(i).leg[k]
	t := p.sockets.at(g.io)
	close(t.resume)
	_ = t.tcp.Close() // not the tls.Conn's, which would wait for room for its alert
	*t = portableLeg{}
	p.sockets.give(g.io)
	g.io = 0
}

func (p *portable) arm(d time.Duration) {
	if d < 0 {
		p.timer.Stop()
		return
	}
	p.timer.Reset(d)
}
