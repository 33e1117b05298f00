package relay

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// tlsLeg is what a leg with TLS needs.
type tlsLeg struct {
	conn *tls.Conn
	raw  *rawConn
}

// againError makes crypto/tls come back later: it keeps an error for good unless that is a temporary net.Error.
type againError struct{}

func (againError) Error() string   { return "relay: nothing to read yet" }
func (againError) Timeout() bool   { return true }
func (againError) Temporary() bool { return true }

// rawConn is the descriptor under a tls.Conn. It never blocks: a read without data is againError, and what cannot be
// written is spilled, since crypto/tls cannot resume a short write.
type rawConn struct {
	p     *poller
	i     uint32
	k     int
	fd    int
	empty bool // the last read was short: another would find nothing
}

func (c *rawConn) Read(b []byte) (int, error) {
	if c.empty {
		return 0, againError{}
	}
	n, errno := rawRead(c.fd, b)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, againError{}
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	c.empty = n < len(b)
	return n, nil
}

func (c *rawConn) Write(b []byte) (n int, err error) {
	if c.p.at(c.i).leg[c.k].spill == 0 {
		if n, err = writeFD(c.fd, b); err != nil {
			return 0, err
		}
	}
	if n < len(b) {
		c.p.hold(c.i, c.k, b[n:])
	}
	return len(b), nil
}

func (c *rawConn) Close() error                     { return nil } // drop closes the descriptor
func (c *rawConn) LocalAddr() net.Addr              { return nil }
func (c *rawConn) RemoteAddr() net.Addr             { return nil }
func (c *rawConn) SetDeadline(time.Time) error      { return nil }
func (c *rawConn) SetReadDeadline(time.Time) error  { return nil }
func (c *rawConn) SetWriteDeadline(time.Time) error { return nil }

func (p *poller) attachTLS(i uint32, k int, c *socket) {
	raw := &rawConn{p: p, i: i, k: k, fd: c.fd}
	c.transport.Conn = raw
	n, t := p.tls.take()
	*t = tlsLeg{conn: c.tls, raw: raw}
	p.at(i).leg[k].io = n
}

// readTLS takes what leg k has, until it would block: plaintext may be inside the tls.Conn, of which no event tells. What
// exceeds one buffer has to wait for its turn.
func (p *poller) readTLS(i uint32, s *session, k int) (empty bool) {
	t := p.tls.at(s.leg[k].io)
	t.raw.empty = false
	p.usedMemory(i, k)
	for total := 0; p.wantsInput(s, k); {
		n, err := t.conn.Read(p.buf[room:])
		if n > 0 {
			p.input(i, k, p.buf, n)
			total += n
		}
		if again := (againError{}); errors.As(err, &again) {
			return true
		}
		if err != nil {
			p.inputEnded(i, k, err)
			return true
		}
		if total >= readSize {
			p.readAgain(i, k)
			return false
		}
	}
	return false
}

func (p *poller) trim(i uint32, k int) {
	if io := p.at(i).leg[k].io; io != 0 {
		trimTLS(p.tls.at(io).conn)
	}
}
