package wiretest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Peer is one end of a connection. Reading and writing may happen in different goroutines, each in one.
type Peer struct {
	// Timeout bounds each wait; default 5 s.
	Timeout time.Duration
	// Conn is the connection itself, for what the methods do not cover. Do not read from it: bytes may be buffered.
	Conn net.Conn

	t      testing.TB
	fatal  func(format string, args ...any)
	masks  bool // a client masks what it sends
	frames frameReader
	br     *bufio.Reader
	log    *recorder
}

// recorder keeps the first MiB that was read.
type recorder struct {
	r  io.Reader
	mu sync.Mutex
	b  []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = append(r.b, p[:min(n, 1<<20-len(r.b))]...)
	return n, err
}

func newPeer(t testing.TB, conn net.Conn, client bool, fatal func(string, ...any)) *Peer {
	log := &recorder{r: conn}
	br := bufio.NewReader(log)
	return &Peer{
		Timeout: 15 * time.Second, Conn: conn,
		t: t, fatal: fatal, masks: client,
		frames: frameReader{r: br, masked: !client}, br: br, log: log,
	}
}

// Received returns what was read from the connection so far, at most the first MiB.
func (p *Peer) Received() []byte {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return bytes.Clone(p.log.b)
}

// Send writes b in one call.
func (p *Peer) Send(b []byte) {
	p.t.Helper()
	if err := p.TrySend(b); err != nil {
		p.fatal("wiretest: send %d bytes: %v", len(b), err)
	}
}

// TrySend is Send for goroutines of the test's own.
func (p *Peer) TrySend(b []byte) error {
	if err := p.Conn.SetWriteDeadline(time.Now().Add(p.Timeout)); err != nil {
		return err
	}
	_, err := p.Conn.Write(b)
	return err
}

// SendString writes s as it is.
func (p *Peer) SendString(s string) { p.t.Helper(); p.Send([]byte(s)) }

// SendHex writes the bytes of s.
func (p *Peer) SendHex(s string) { p.t.Helper(); p.Send(Hex(p.t, s)) }

// Drip writes b in pieces of n bytes with a pause between them.
func (p *Peer) Drip(b []byte, n int, pause time.Duration) {
	p.t.Helper()
	for len(b) > 0 {
		n := min(n, len(b))
		p.Send(b[:n])
		if b = b[n:]; len(b) > 0 {
			time.Sleep(pause)
		}
	}
}

// Frame renders a frame of this end: masked with random bytes if it is a client.
func (p *Peer) Frame(fin bool, op byte, payload []byte) []byte {
	f := Frame{Fin: fin, Op: op, Masked: p.masks, Payload: payload}
	if f.Masked {
		_, _ = rand.Read(f.Mask[:]) // never fails
	}
	return f.Append(nil)
}

// SendFrame writes one frame in one call.
func (p *Peer) SendFrame(fin bool, op byte, payload []byte) {
	p.t.Helper()
	p.Send(p.Frame(fin, op, payload))
}

// SendText writes one text message.
func (p *Peer) SendText(s string) { p.t.Helper(); p.SendFrame(true, Text, []byte(s)) }

// SendClose writes a Close frame; code 1005 sends an empty one.
func (p *Peer) SendClose(code int, reason string) {
	p.t.Helper()
	p.SendFrame(true, Close, ClosePayload(code, reason))
}

// ReadFrame reads one frame and fails unless the other end was allowed to send it here.
func (p *Peer) ReadFrame() Frame {
	p.t.Helper()
	f, err := p.TryReadFrame()
	if err != nil {
		p.fatal("wiretest: read a frame: %v", err)
	}
	return f
}

// TryReadFrame is ReadFrame for goroutines of the test's own. The error is io.EOF only for a FIN between two frames.
func (p *Peer) TryReadFrame() (Frame, error) {
	if err := p.Conn.SetReadDeadline(time.Now().Add(p.Timeout)); err != nil {
		return Frame{}, err
	}
	return p.frames.next()
}

// ReadMessage reads one data message and joins its fragments. It answers pings and skips pongs.
func (p *Peer) ReadMessage() (op byte, payload []byte) {
	p.t.Helper()
	for {
		f := p.ReadFrame()
		switch f.Op {
		case Ping:
			p.SendFrame(true, Pong, f.Payload)
			continue
		case Pong:
			continue
		case Close:
			code, reason := f.CloseCode()
			p.fatal("wiretest: want a message, got Close %d %q", code, reason)
		case Continuation:
		default:
			op = f.Op
		}
		payload = append(payload, f.Payload...)
		if f.Fin {
			return op, payload
		}
	}
}

// ExpectText reads one message and compares it.
func (p *Peer) ExpectText(want string) {
	p.t.Helper()
	op, got := p.ReadMessage()
	if op != Text || string(got) != want {
		p.fatal("wiretest: got opcode %#x %.200q, want text %.200q", op, got, want)
	}
}

// ExpectHex reads as many bytes as s has and compares them.
func (p *Peer) ExpectHex(s string) { p.t.Helper(); p.ExpectBytes(Hex(p.t, s)) }

// ExpectBytes reads as many bytes as want has and compares them.
func (p *Peer) ExpectBytes(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	_ = p.Conn.SetReadDeadline(time.Now().Add(p.Timeout))
	n, err := io.ReadFull(p.br, got)
	if err != nil || !bytes.Equal(got, want) {
		p.fatal("wiretest: got % x (%v), want % x", got[:n], err, want)
	}
}

// ExpectClose reads up to a Close frame, skipping pings and pongs but no data, and returns its reason.
func (p *Peer) ExpectClose(code int) (reason string) {
	p.t.Helper()
	for {
		f := p.ReadFrame()
		if f.Op == Ping || f.Op == Pong {
			continue
		}
		got, reason := f.CloseCode()
		if f.Op != Close || got != code {
			p.fatal("wiretest: got opcode %#x % .64x, want Close %d", f.Op, f.Payload, code)
		}
		return reason
	}
}

// ExpectEOF waits for a FIN with no byte before it. A reset is not a FIN.
func (p *Peer) ExpectEOF() {
	p.t.Helper()
	_ = p.Conn.SetReadDeadline(time.Now().Add(p.Timeout))
	b, err := p.br.ReadByte()
	switch {
	case err == nil:
		rest, _ := p.br.Peek(p.br.Buffered())
		p.fatal("wiretest: got % .64x, want the end", append([]byte{b}, rest...))
	case !errors.Is(err, io.EOF):
		p.fatal("wiretest: got %v, want a clean end", err)
	}
}

// ExpectSilence fails if anything but the passing of d happens: a byte, an end or a reset.
func (p *Peer) ExpectSilence(d time.Duration) {
	p.t.Helper()
	_ = p.Conn.SetReadDeadline(time.Now().Add(d))
	b, err := p.br.Peek(1)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		p.fatal("wiretest: got % x (%v), want silence", b, err)
	}
}

// readHead reads up to and with the empty line.
func (p *Peer) readHead() (string, error) {
	if err := p.Conn.SetReadDeadline(time.Now().Add(p.Timeout)); err != nil {
		return "", err
	}
	var head strings.Builder
	for {
		line, err := p.br.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
		if head.Len() > 1<<20 {
			return head.String(), errors.New("head longer than 1 MiB")
		}
	}
}

// FIN ends this end's sending; the other direction stays open. If the other end is gone already, the next read tells.
func (p *Peer) FIN() {
	p.t.Helper()
	c, ok := p.Conn.(interface{ CloseWrite() error })
	if !ok {
		p.fatal("wiretest: %T has no half-close", p.Conn)
	}
	_ = c.CloseWrite()
}

// RST drops the connection with a reset, below TLS too.
func (p *Peer) RST() {
	conn := p.Conn
	if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = c.NetConn()
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// Close closes the connection; a second time is harmless.
func (p *Peer) Close() { _ = p.Conn.Close() }
