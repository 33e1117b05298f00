package relay

import (
	"crypto/tls"
	"net"

	"github.com/rtd-project/rtd/internal/wire"
)

// socket is a connection on its way into a loop.
type socket struct {
	tcp       *net.TCPConn
	tls       *tls.Conn       // nil without TLS
	transport *wire.Transport // under tls
	fd        int             // of the driver; -1 for none
}

func newSocket(conn net.Conn) (*socket, error) {
	switch c := conn.(type) {
	case *net.TCPConn:
		return &socket{tcp: c, fd: -1}, nil
	case *tls.Conn:
		if t, ok := c.NetConn().(*wire.Transport); ok {
			if tcp, ok := t.Conn.(*net.TCPConn); ok {
				return &socket{tcp: tcp, tls: c, transport: t, fd: -1}, nil
			}
		}
	}
	return nil, ErrConn
}
