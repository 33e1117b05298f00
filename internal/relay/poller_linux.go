package relay

import (
	"errors"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// readSize is the read buffer that the sessions of a poller share.
	readSize = 64 << 10
	// notSent bounds what the kernel holds unsent for a slow peer; what is in flight does not count, so that a long
	// round trip costs no throughput.
	notSent = 128 << 10
	// batch is how many events are taken at once; after yieldAfter batches in a row other goroutines get their turn.
	batch      = 128
	yieldAfter = 8
	// drainReads bounds what is read of one leg in one go.
	drainReads = 64
	// In place of a session's number.
	wakeEvent  = -1
	timerEvent = -2
)

// poller drives a loop by epoll. The epoll descriptor is itself in the runtime's poller: no thread is blocked, and an
// idle loop costs nothing.
type poller struct {
	*loop
	epoll  *os.File
	ep     int
	wakeFD int
	timer  int

	events [batch]unix.EpollEvent
	buf    []byte
	tls    table[tlsLeg]
	again  []ref // legs that have something to read of which no event will tell
	turn   []ref
	more   bool // the sockets are not known to be empty
}

func newDriver(l *loop) (driver, error) {
	p := &poller{loop: l, ep: -1, wakeFD: -1, timer: -1, buf: make([]byte, room+readSize)}
	if err := p.openFDs(); err != nil {
		p.closeFDs()
		return nil, err
	}
	return p, nil
}

// run waits in the runtime's poller and works until nothing is left to do.
func (p *poller) run() {
	defer p.closeFDs()
	conn, err := p.epoll.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool { return p.serveAll() })
	}
	if err != nil {
		panic("relay: wait for epoll: " + err.Error()) // openFDs has seen that the runtime can
	}
}

// serveAll serves events until there are none. It reports true when the loop is to end.
func (p *poller) serveAll() (quit bool) {
	for n := 1; ; n++ {
		got := p.poll()
		if got == 0 && len(p.again) == 0 {
			return false
		}
		p.refresh()
		p.more = got == batch
		for _, e := range p.events[:got] {
			if !p.serve(e) {
				return true
			}
		}
		p.serveAgain()
		p.sweep()
		if !p.more && len(p.again) == 0 {
			// Every socket was seen empty: what comes later is a new edge for the runtime's poller. One more wait that finds
			// nothing can be spared.
			return false
		}
		if n%yieldAfter == 0 {
			runtime.Gosched()
		}
	}
}

// serve handles one event. It reports false when the loop is to end.
func (p *poller) serve(e unix.EpollEvent) bool {
	switch e.Fd {
	case wakeEvent:
		p.more = true
		clearFD(p.wakeFD)
		return p.runCommands()
	case timerEvent:
		p.more = true
		clearFD(p.timer)
		p.wheel.armed = 0
		return true
	}
	if i, gen := uint32(e.Fd)>>1, uint32(e.Pad); p.valid(i, gen) { // else it ended in this batch
		p.serveLeg(i, gen, int(e.Fd&1), e)
	}
	return true
}

// serveLeg handles an event of leg k.
func (p *poller) serveLeg(i, gen uint32, k int, e unix.EpollEvent) {
	defer p.contain(i, gen)
	s := p.at(i)
	g := &s.leg[k]
	if g.flags&fClosed != 0 {
		return
	}
	if e.Events&unix.EPOLLOUT != 0 {
		p.more = true
		p.flush(i, k)
	}
	if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		p.hangup(i, s, k, e.Events)
	}
	if e.Events&^unix.EPOLLOUT != 0 && p.wantsInput(s, k) {
		p.read(i, s, k)
	}
	p.settle(i, s)
}

// hangup notes that the peer has ended or the connection broke. If the leg is not read now, because the other side is
// slow, no event may report that again until it is: epoll always reports a broken connection.
func (p *poller) hangup(i uint32, s *session, k int, events uint32) {
	p.more = true
	g := &s.leg[k]
	if p.wantsInput(s, k) || events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return // the read finds it
	}
	g.flags |= fReset
	if g.flags&fEOF != 0 {
		p.broken(s, k)
	}
	p.flush(i, k)
	s.dirty = true
}

// read takes what leg k has, at most one buffer of it, so that no session holds up the others. It reports whether there
// is no more: a short read does not tell, for a FIN may be behind it.
func (p *poller) read(i uint32, s *session, k int) (empty bool) {
	g := &s.leg[k]
	if g.io != 0 {
		return p.readTLS(i, s, k)
	}
	n, errno := rawRead(int(g.fd), p.buf[room:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return true
	case errno != 0:
		p.inputEnded(i, k, os.NewSyscallError("read", errno))
		return true
	case n == 0:
		p.inputEnded(i, k, io.EOF)
		return true
	}
	p.more = p.more || n == readSize
	p.input(i, k, p.buf, n)
	return false
}

// serveAgain reads the legs of which no event will tell, each once.
func (p *poller) serveAgain() {
	p.turn, p.again = p.again, p.turn[:0]
	for _, r := range p.turn {
		if p.valid(r.i, r.gen) {
			s := p.at(r.i)
			if p.wantsInput(s, r.k) {
				p.read(r.i, s, r.k)
			}
			p.settle(r.i, s)
		}
	}
}

func (p *poller) readAgain(i uint32, k int) {
	p.again = append(p.again, ref{i, p.at(i).gen, k})
}

// flush writes what waits to be written to leg k.
func (p *poller) flush(i uint32, k int) {
	b := p.pending(i, k)
	if len(b) == 0 {
		return
	}
	s := p.at(i)
	n, errno := rawWrite(int(s.leg[k].fd), b)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0:
		p.broken(s, k)
	default:
		p.wrote(i, k, n)
	}
}

func (p *poller) write(i uint32, k int, b []byte) (int, error) {
	g := &p.at(i).leg[k]
	if g.io != 0 {
		return p.tls.at(g.io).conn.Write(b)
	}
	if g.spill != 0 {
		return 0, nil
	}
	return writeFD(int(g.fd), b)
}

// writeFD writes what fits.
func writeFD(fd int, b []byte) (int, error) {
	n, errno := rawWrite(fd, b)
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, os.NewSyscallError("write", errno)
	}
	return n, nil
}

// interest tells epoll what is waited for.
func (p *poller) interest(i uint32, k int, read, write bool) {
	s := p.at(i)
	g := &s.leg[k]
	want := registered
	if read {
		want |= unix.EPOLLIN | unix.EPOLLRDHUP
	}
	if write {
		want |= unix.EPOLLOUT
	}
	if g.flags&fReset != 0 && !read {
		want = 0
	}
	if want == uint32(g.ev) {
		return
	}
	op := unix.EPOLL_CTL_MOD
	switch {
	case g.ev == 0:
		op = unix.EPOLL_CTL_ADD
	case want == 0:
		op = unix.EPOLL_CTL_DEL
	}
	e := unix.EpollEvent{Events: want &^ registered, Fd: int32(i<<1 | uint32(k)), Pad: int32(s.gen)}
	if err := unix.EpollCtl(p.ep, op, int(g.fd), &e); err != nil {
		g.ev = 0
		p.inputEnded(i, k, os.NewSyscallError("epoll_ctl", err))
		p.readAgain(i, k) // settles it
		return
	}
	if g.io != 0 && read && g.ev&unix.EPOLLIN == 0 {
		p.readAgain(i, k) // plaintext may be inside the tls.Conn
	}
	g.ev = uint16(want)
}

// registered marks a leg that epoll knows, even if it waits for nothing; epoll never gets to see it.
const registered uint32 = 1 << 15

func (p *poller) notify(i uint32, k int) {
	if io := p.at(i).leg[k].io; io != 0 {
		_ = p.tls.at(io).conn.CloseWrite() // an error shows at the next write or read
	}
}

func (p *poller) finish(i uint32, k int) {
	_ = unix.Shutdown(int(p.at(i).leg[k].fd), unix.SHUT_WR) // fails only where the connection is gone already
}

func (p *poller) prepare(c *socket) error {
	conn, err := c.tcp.SyscallConn()
	if err != nil {
		return err
	}
	ctl := conn.Control(func(fd uintptr) { c.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(ctl, err); err != nil {
		c.fd = -1
		return os.NewSyscallError("dup", err)
	}
	return nil
}

func (p *poller) abort(c *socket) {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
}

func (p *poller) moved(c *socket) { _ = c.tcp.Close() } // the duplicate lives on

func (p *poller) attach(i uint32, k int, c *socket) {
	g := &p.at(i).leg[k]
	g.fd = int32(c.fd)
	// Both fail only on a socket that is gone, which the first read will tell.
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSent)
	if c.tls != nil {
		p.attachTLS(i, k, c)
	}
}

func (p *poller) drop(i uint32, k int) {
	g := &p.at(i).leg[k]
	if g.ev != 0 {
		// The connection it was duplicated from may be open for a moment more, and epoll would go on reporting.
		_ = unix.EpollCtl(p.ep, unix.EPOLL_CTL_DEL, int(g.fd), nil)
	}
	for range 4 { // what is unread at a close makes the kernel reset a peer that may still be reading
		if n, errno := rawRead(int(g.fd), p.buf[room:]); errno != 0 || n < readSize {
			break
		}
	}
	_ = unix.Close(int(g.fd))
	if g.io != 0 {
		*p.tls.at(g.io) = tlsLeg{}
		p.tls.give(g.io)
	}
	g.fd, g.io, g.ev = -1, 0, 0
}

func (p *poller) unsent(i uint32, k int) int {
	n, err := unix.IoctlGetInt(int(p.at(i).leg[k].fd), unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// drain reads a parked leg until it is empty or the session has ended.
func (p *poller) drain(i uint32, k int) {
	s := p.at(i)
	for range drainReads {
		if !p.wantsInput(s, k) || p.read(i, s, k) || s.state != parked {
			break
		}
	}
	p.settle(i, s)
}

// poll takes the events there are.
func (p *poller) poll() int {
	n, errno := rawPoll(p.ep, p.events[:])
	if errno != 0 {
		return 0
	}
	return n
}
