package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/wire"
)

// maxMessage bounds one message. Whole utterances of several MiB in one event have been seen.
const maxMessage = 64 << 20

// closedError ends the reading of a socket: the peer's Close came, or its end without one.
type closedError struct {
	code   ws.StatusCode // 1005 without a code, 1006 without a Close
	reason string
}

func (e *closedError) Error() string { return fmt.Sprintf("closed with %d", e.code) }

// socket is the client's end of a WebSocket. One goroutine reads; one may write meanwhile, since only Pings make the
// reader write, and a connection takes writes from several goroutines.
type socket struct {
	conn   net.Conn
	timing wire.Timing
	header http.Header

	parser wire.Parser
	buf    []byte // what was read and not yet taken is buf[r:w]
	r, w   int
	msg    []byte
	out    []byte // of the writer
}

// dial opens a WebSocket to t under ctx.
func (t *Target) dial(ctx context.Context) (*socket, error) {
	d := wire.Dialer{TLSConfig: t.TLS}
	up, err := d.Dial(ctx, t.URL, t.Header, t.Protocols)
	if err != nil {
		return nil, err
	}
	s := &socket{conn: up.Conn, timing: up.Timing, header: up.Header, buf: make([]byte, max(8<<10, len(up.Early)))}
	s.w = copy(s.buf, up.Early)
	return s, nil
}

// within makes the end of ctx end every read and write; stop undoes it.
func (s *socket) within(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { s.conn.SetDeadline(time.Unix(1, 0)) })
}

func (s *socket) close() { s.conn.Close() }

// abort ends the connection without waiting for a TLS farewell.
func (s *socket) abort() {
	if secure, ok := s.conn.(*tls.Conn); ok {
		secure.NetConn().Close()
	}
	s.conn.Close()
}

func (s *socket) writeText(payload []byte) error {
	s.out = wire.AppendFrame(s.out[:0], wire.FromClient, ws.OpText, payload)
	_, err := s.conn.Write(s.out)
	return err
}

func (s *socket) writeClose(code ws.StatusCode) error {
	_, err := s.conn.Write(wire.AppendClose(nil, wire.FromClient, code, ""))
	return err
}

// read returns the next data message, valid until the next call. The end of the peer is an *closedError.
func (s *socket) read() ([]byte, error) {
	s.msg = s.msg[:0]
	for {
		f, err := s.next()
		if err != nil {
			return nil, err
		}
		if f.Op.IsControl() {
			if err := s.control(f); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.take(f.Length); err != nil {
			return nil, err
		}
		if f.Fin {
			return s.msg, nil
		}
	}
}

// next reads a frame header.
func (s *socket) next() (wire.Frame, error) {
	for {
		f, ok, err := s.parser.Next(s.buf[s.r:s.w], wire.FromServer, maxMessage)
		if err != nil {
			return f, err
		}
		if ok {
			s.r += f.Header
			return f, nil
		}
		if err := s.fill(); err != nil {
			return f, err
		}
	}
}

// take moves n payload bytes into the message. The message grows as they come, never on the header's word.
func (s *socket) take(n int64) error {
	for n > 0 {
		if s.r == s.w {
			if err := s.fill(); err != nil {
				return err
			}
		}
		m := int(min(n, int64(s.w-s.r)))
		s.msg = append(s.msg, s.buf[s.r:s.r+m]...)
		s.r += m
		s.parser.Advance(m)
		n -= int64(m)
	}
	return nil
}

// control takes a control frame, which may stand inside a message.
func (s *socket) control(f wire.Frame) error {
	for int64(s.w-s.r) < f.Length {
		if err := s.fill(); err != nil {
			return err
		}
	}
	payload := s.buf[s.r : s.r+int(f.Length)]
	s.r += int(f.Length)
	switch f.Op {
	case ws.OpPing:
		_, err := s.conn.Write(wire.AppendFrame(nil, wire.FromClient, ws.OpPong, payload))
		return err
	case ws.OpClose:
		code, err := wire.CheckClosePayload(payload)
		if err != nil {
			return err
		}
		return &closedError{code, string(payload[min(2, len(payload)):])}
	}
	return nil
}

// fill reads more, behind what is there.
func (s *socket) fill() error {
	if s.r > 0 {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return &closedError{code: ws.StatusAbnormalClosure}
	}
	return err
}
