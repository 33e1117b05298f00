package wiretest

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Upstream listens on loopback and runs a handler for each connection, in a goroutine that the test's cleanup waits
// for. A connection is closed when its handler returns, and all of them at the end of the test.
type Upstream struct {
	t       testing.TB
	addr    string
	tls     *tls.Config
	roots   *x509.CertPool
	handler func(*UpstreamConn)

	wg      sync.WaitGroup
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	ln      net.Listener  // nil while refusing
	conns   []*UpstreamConn
	open    map[*UpstreamConn]bool
	maxOpen int
	ended   bool

	held *os.File // keeps the port while refusing; the test's
}

// UpstreamConn is the upstream's end of one connection.
type UpstreamConn struct {
	*Peer
	// N counts the connections of its Upstream from 1.
	N int

	mu   sync.Mutex
	head string
	over bool
}

// NewUpstream starts a ws:// upstream. A nil handler is Echo.
func NewUpstream(t testing.TB, handler func(*UpstreamConn)) *Upstream {
	t.Helper()
	return start(t, handler, nil, nil)
}

// NewTLSUpstream starts a wss:// upstream whose certificate is valid for 127.0.0.1, ::1 and localhost under Roots. change may
// change what it encrypts with.
func NewTLSUpstream(t testing.TB, handler func(*UpstreamConn), change ...func(*tls.Config)) *Upstream {
	t.Helper()
	cert, roots := certificate(t)
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	for _, f := range change {
		f(config)
	}
	return start(t, handler, config, roots)
}

func start(t testing.TB, handler func(*UpstreamConn), config *tls.Config, roots *x509.CertPool) *Upstream {
	t.Helper()
	if handler == nil {
		handler = Echo
	}
	u := &Upstream{
		t: t, tls: config, roots: roots, handler: handler, addr: "127.0.0.1:0",
		changed: make(chan struct{}), open: make(map[*UpstreamConn]bool),
	}
	u.Listen()
	t.Cleanup(u.end)
	return u
}

// Listen accepts again after Refuse, on the same port.
func (u *Upstream) Listen() {
	u.t.Helper()
	u.free()
	ln, err := net.Listen("tcp", u.addr)
	if err != nil {
		u.t.Fatalf("wiretest: %v", err)
	}
	u.mu.Lock()
	u.ln, u.addr = ln, ln.Addr().String()
	u.mu.Unlock()
	u.wg.Go(func() { u.accept(ln) })
}

// Refuse closes the port, and keeps it from everybody else until Listen; open connections live on.
func (u *Upstream) Refuse() {
	u.close()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		u.t.Fatalf("wiretest: %v", err)
	}
	at := netip.MustParseAddrPort(u.Addr())
	u.held = os.NewFile(uintptr(fd), "held port")
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) // connections of the port may linger
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		u.t.Fatalf("wiretest: %v", err)
	}
}

// free gives up what Refuse keeps.
func (u *Upstream) free() {
	if u.held != nil {
		_ = u.held.Close()
		u.held = nil
	}
}

func (u *Upstream) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ln != nil {
		_ = u.ln.Close()
		u.ln = nil
	}
}

func (u *Upstream) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return // closed by Refuse or end
		}
		if u.tls != nil {
			conn = tls.Server(conn, u.tls)
		}
		if c := u.add(conn); c != nil {
			u.wg.Go(func() { u.serve(c) })
		}
	}
}

func (u *Upstream) add(conn net.Conn) *UpstreamConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		_ = conn.Close()
		return nil
	}
	c := &UpstreamConn{N: len(u.conns) + 1}
	c.Peer = newPeer(u.t, conn, false, c.fail)
	u.conns = append(u.conns, c)
	u.open[c] = true
	u.maxOpen = max(u.maxOpen, len(u.open))
	u.notify()
	return c
}

// fail is t.Fatalf for a handler. What fails because the test is over is no failure.
func (c *UpstreamConn) fail(format string, args ...any) {
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if !over {
		c.t.Errorf(format, args...)
	}
	runtime.Goexit()
}

func (u *Upstream) serve(c *UpstreamConn) {
	defer func() {
		// It counts no more before the other end can see it closed, and dial again.
		u.mu.Lock()
		delete(u.open, c)
		u.notify()
		u.mu.Unlock()
		c.Peer.Close()
	}()
	u.handler(c)
}

func (u *Upstream) notify() {
	close(u.changed)
	u.changed = make(chan struct{})
}

func (u *Upstream) end() {
	u.close()
	u.free()
	u.mu.Lock()
	u.ended = true
	for c := range u.open {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		c.Peer.RST()
	}
	u.mu.Unlock()
	u.wg.Wait()
}

// Addr is the host and port it listens on.
func (u *Upstream) Addr() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.addr
}

// URL is its base URL, ws://127.0.0.1:PORT or wss://…, without a path.
func (u *Upstream) URL() *url.URL {
	scheme := "ws"
	if u.tls != nil {
		scheme = "wss"
	}
	return &url.URL{Scheme: scheme, Host: u.Addr()}
}

// Roots holds the authority of its certificate; nil without TLS.
func (u *Upstream) Roots() *x509.CertPool { return u.roots }

// Dials counts the connections accepted so far.
func (u *Upstream) Dials() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.conns)
}

// Open counts the connections whose handler has not returned.
func (u *Upstream) Open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

// MaxOpen is the most that were ever open at once.
func (u *Upstream) MaxOpen() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.maxOpen
}

// Await waits until ok reports true; it is asked again at each accept and each end of a handler.
func (u *Upstream) Await(what string, ok func(u *Upstream) bool) {
	u.t.Helper()
	late := time.After(5 * time.Second)
	for {
		u.mu.Lock()
		changed := u.changed
		u.mu.Unlock()
		if ok(u) {
			return
		}
		select {
		case <-changed:
		case <-late:
			u.t.Fatalf("wiretest: no %s within 5 s (%d dials, %d open)", what, u.Dials(), u.Open())
		}
	}
}

// Conn returns connection n, counted from 1, and waits for it if need be.
func (u *Upstream) Conn(n int) *UpstreamConn {
	u.t.Helper()
	u.Await("further connection", func(u *Upstream) bool { return u.Dials() >= n })
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns[n-1]
}

// ReadRequest reads the request head. A connection that ends before its first byte is a dial given up, which is no failure:
// the handler ends.
func (c *UpstreamConn) ReadRequest() *http.Request {
	c.t.Helper()
	head, err := c.readHead()
	if head == "" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		runtime.Goexit()
	}
	if err != nil {
		c.fatal("wiretest: request head %q: %v", head, err)
	}
	c.mu.Lock()
	c.head = head
	c.mu.Unlock()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		c.fatal("wiretest: request head %q: %v", head, err)
	}
	return req
}

// Head is the request head as it was read by ReadRequest, for any goroutine.
func (c *UpstreamConn) Head() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head
}

// Switching renders the 101 that answers req, with more header lines.
func Switching(req *http.Request, lines ...string) string {
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	for _, line := range lines {
		head += line + "\r\n"
	}
	return head + "\r\n"
}

// Accept reads the request and answers 101 with more header lines.
func (c *UpstreamConn) Accept(lines ...string) *http.Request {
	c.t.Helper()
	req := c.ReadRequest()
	c.SendString(Switching(req, lines...))
	return req
}

// Respond reads the request, answers with response as it is and ends its sending.
func (c *UpstreamConn) Respond(response string) {
	c.t.Helper()
	c.ReadRequest()
	c.SendString(response)
	c.FIN()
}

// Echo accepts and then returns every data frame as it is, answers pings and a Close, and ends at a FIN or a reset.
func Echo(c *UpstreamConn) {
	c.Accept()
	c.Echo()
}

// Ready accepts, sends SessionCreated and then echoes.
func Ready(c *UpstreamConn) {
	req := c.ReadRequest()
	c.SendString(Switching(req) + string(c.Frame(true, Text, []byte(SessionCreated))))
	c.Echo()
}

// Echo is the part of the handler Echo behind the 101. It waits without a deadline.
func (c *UpstreamConn) Echo() {
	_ = c.Conn.SetReadDeadline(time.Time{})
	for {
		f, err := c.frames.next()
		if err != nil {
			return
		}
		f.Masked = false
		switch f.Op {
		case Ping:
			f.Op = Pong
		case Pong:
			continue
		}
		if c.TrySend(f.Append(nil)) != nil || f.Op == Close {
			return
		}
	}
}
