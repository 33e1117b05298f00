package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// dial dials u with five seconds to go and closes what it gets at the end of the test.
func dial(t *testing.T, d *Dialer, u *url.URL, header http.Header, protocols ...string) (*Upstream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	up, err := d.Dial(ctx, u, header, protocols)
	if err == nil {
		t.Cleanup(func() { _ = up.Conn.Close() })
	} else if up != nil {
		t.Error("an upstream beside an error")
	}
	return up, err
}

func mustDial(t *testing.T, d *Dialer, u *url.URL, header http.Header, protocols ...string) *Upstream {
	t.Helper()
	up, err := dial(t, d, u, header, protocols...)
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// echoes checks that up is open both ways: the peer echoes Hello.
func echoes(t *testing.T, up *Upstream) {
	t.Helper()
	if _, err := up.Conn.Write(wiretest.Hex(t, wiretest.Hello)); err != nil {
		t.Fatal(err)
	}
	want := wiretest.Hex(t, "81 05 48 65 6c 6c 6f")
	got := make([]byte, len(want))
	if _, err := io.ReadFull(up.Conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got % x, %v", got, err)
	}
}

func TestDial(t *testing.T) {
	u := wiretest.NewUpstream(t, nil)
	target := u.URL()
	target.Path, target.RawQuery = "//v1/real time", "model=m&x=%20"
	header := http.Header{"Authorization": {"Bearer sk-test-1"}, "X-B": {"1", "2"}}
	up := mustDial(t, &Dialer{}, target, header)
	conn, ok := up.Conn.(*net.TCPConn)
	if !ok || up.Early != nil || up.Protocol != "" || up.Header.Get("Upgrade") != "websocket" {
		t.Errorf("got %+v", up)
	}
	if timing := up.Timing; timing.DNS != 0 || timing.TLS != 0 || timing.TCP <= 0 || timing.Upgrade <= 0 {
		t.Errorf("timing %+v", timing)
	}
	echoes(t, up)
	lines := strings.Split(u.Conn(1).Head(), "\r\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "Sec-WebSocket-Key: ") {
			lines[i] = "Sec-WebSocket-Key: " + wiretest.Key
		}
	}
	want := "GET //v1/real%20time?model=m&x=%20 HTTP/1.1\r\nHost: " + u.Addr() + "\r\nUpgrade: websocket\r\n" +
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + wiretest.Key + "\r\n" +
		"Authorization: Bearer sk-test-1\r\nX-B: 1\r\nX-B: 2\r\n\r\n"
	if got := strings.Join(lines, "\r\n"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if on, err := noDelay(conn); err != nil || on == 0 {
		t.Errorf("TCP_NODELAY is %d, %v", on, err)
	}
}

func noDelay(conn *net.TCPConn) (on int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		on, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	}); e != nil {
		return 0, e
	}
	return on, err
}

func TestDialSwitchesNoDelayOn(t *testing.T) {
	u := wiretest.NewUpstream(t, nil)
	d := &Dialer{NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetNoDelay(false)
		}
		return conn, err
	}}
	up := mustDial(t, d, u.URL(), nil)
	if on, err := noDelay(up.Conn.(*net.TCPConn)); err != nil || on == 0 {
		t.Errorf("TCP_NODELAY is %d, %v", on, err)
	}
}

func TestDialOverTLS(t *testing.T) {
	u := wiretest.NewTLSUpstream(t, nil)
	target := u.URL()
	target.Host = strings.Replace(u.Addr(), "127.0.0.1", "localhost", 1)
	d := &Dialer{TLSConfig: &tls.Config{RootCAs: u.Roots()}}
	up := mustDial(t, d, target, nil)
	secure, ok := up.Conn.(*tls.Conn)
	if !ok {
		t.Fatalf("got %T", up.Conn)
	}
	transport, ok := secure.NetConn().(*Transport)
	if !ok {
		t.Fatalf("over %T", secure.NetConn())
	}
	if _, ok := transport.Conn.(*net.TCPConn); !ok {
		t.Errorf("over %T", transport.Conn)
	}
	if timing := up.Timing; timing.TLS <= 0 || timing.DNS <= 0 || timing.TCP <= 0 {
		t.Errorf("timing %+v", timing)
	}
	if state := secure.ConnectionState(); state.ServerName != "localhost" || state.NegotiatedProtocol != "" {
		t.Errorf("server name %q, ALPN %q", state.ServerName, state.NegotiatedProtocol)
	}
	echoes(t, up)
	if d.TLSConfig.ServerName != "" {
		t.Error("the caller's configuration was changed")
	}
}

func TestDialChecksCertificate(t *testing.T) {
	u := wiretest.NewTLSUpstream(t, func(c *wiretest.UpstreamConn) {
		if _, err := c.TryReadFrame(); err == nil {
			t.Error("something was sent")
		}
	})
	f := func(config *tls.Config) {
		t.Helper()
		_, err := dial(t, &Dialer{TLSConfig: config}, u.URL(), nil)
		var bad *tls.CertificateVerificationError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "tls "+u.Addr()+": ") {
			t.Errorf("got %v", err)
		}
	}
	f(nil)
	f(&tls.Config{RootCAs: x509.NewCertPool()})
	f(&tls.Config{RootCAs: u.Roots(), ServerName: "elsewhere.example"})
}

func TestDialSubprotocol(t *testing.T) {
	var choice string
	u := answering(t, func(req *http.Request) string { return wiretest.Switching(req, choice) })
	choice = "Sec-WebSocket-Protocol: b"
	if up := mustDial(t, &Dialer{}, u.URL(), nil, "a", "b"); up.Protocol != "b" {
		t.Errorf("chose %q", up.Protocol)
	}
	if head := u.Conn(1).Head(); !strings.Contains(head, "\r\nSec-WebSocket-Protocol: a, b\r\n") {
		t.Errorf("offered %q", head)
	}
	f := func(line string, offered ...string) {
		t.Helper()
		choice = line
		if _, err := dial(t, &Dialer{}, u.URL(), nil, offered...); !errors.Is(err, ErrBadHandshake) {
			t.Errorf("%s: got %v", line, err)
		}
	}
	f("Sec-WebSocket-Protocol: c", "a", "b")
	f("Sec-WebSocket-Protocol: a, b", "a", "b")
	f("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b", "a", "b")
	f("Sec-WebSocket-Protocol: a")
}

func TestDialRefusesWhatMustNotBeSent(t *testing.T) {
	u := wiretest.NewUpstream(t, nil)
	f := func(what string, change func(u *url.URL), header http.Header, protocols ...string) {
		t.Helper()
		target := u.URL()
		target.Path = "/v1"
		if change != nil {
			change(target)
		}
		_, err := dial(t, &Dialer{}, target, header, protocols...)
		if !errors.Is(err, ErrBadRequest) || strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	f("user", func(u *url.URL) { u.User = url.UserPassword("a", "sk-test-1") }, nil)
	f("scheme", func(u *url.URL) { u.Scheme = "https" }, nil)
	f("fragment", func(u *url.URL) { u.Fragment = "f" }, nil)
	f("opaque", func(u *url.URL) { u.Opaque = "//x HTTP/1.1\r\nX: y" }, nil)
	f("no host", func(u *url.URL) { u.Host = ":80" }, nil)
	f("line in the host", func(u *url.URL) { u.Host += "\r\nX: y" }, nil)
	f("host beyond ASCII", func(u *url.URL) { u.Host = "bücher.example" }, nil)
	f("line in the query", func(u *url.URL) { u.RawQuery = "a=sk-test-1\r\nX: y" }, nil)
	f("space in the query", func(u *url.URL) { u.RawQuery = "a HTTP/1.1" }, nil)
	f("line in a value", nil, http.Header{"A": {"sk-test-1\r\nX: y"}})
	f("LF in a value", nil, http.Header{"A": {"ok", "sk-test-1\nX: y"}})
	f("NUL in a value", nil, http.Header{"A": {"\x00"}})
	f("line in a name", nil, http.Header{"A: b\r\nX": {"y"}})
	f("empty name", nil, http.Header{"": {"y"}})
	for _, name := range []string{"host", "Connection", "UPGRADE", "Content-Length", "Transfer-Encoding", "Sec-WebSocket-Key", "Sec-Websocket-Extensions"} {
		f(name, nil, http.Header{name: {"x"}})
	}
	f("line in a subprotocol", nil, nil, "a", "b\r\nX: y")
	f("empty subprotocol", nil, nil, "")
	if n := u.Dials(); n != 0 {
		t.Errorf("%d dials", n)
	}
}

// Each step is cut short by the end of the context, and leaves no socket behind.
func TestDialEndsWithItsContext(t *testing.T) {
	hang := func(c *wiretest.UpstreamConn) { _, _ = io.Copy(io.Discard, c.Conn) }
	deaf := wiretest.NewUpstream(t, hang)
	half := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.SendString("HTTP/1.1 101 S"); hang(c) })
	reason := errors.New("shrunk")
	f := func(step string, d *Dialer, u *wiretest.Upstream, scheme string) {
		t.Helper()
		target := u.URL()
		target.Scheme = scheme
		check := func(ctx context.Context, step string, want error) {
			t.Helper()
			start := time.Now()
			_, err := d.Dial(ctx, target, nil, nil)
			if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), step+" "+u.Addr()+": ") {
				t.Errorf("%s: got %v, want %v", step, err, want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s: took %v", step, took)
			}
			u.Await("end", func(u *wiretest.Upstream) bool { return u.Open() == 0 })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		check(ctx, step, context.DeadlineExceeded)
		dying, end := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Millisecond, func() { end(reason) })
		check(dying, step, reason)
		check(dying, "tcp", reason) // ended before it began
	}
	f("tls", &Dialer{}, deaf, "wss")
	f("upgrade", &Dialer{}, deaf, "ws")
	f("upgrade", &Dialer{}, half, "ws")
	f("tcp", &Dialer{NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, deaf, "ws")
}

func TestDialNamesTheLookup(t *testing.T) {
	d := &Dialer{NetDial: (&net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial:     func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrPermission },
	}}).DialContext}
	_, err := dial(t, d, &url.URL{Scheme: "ws", Host: "host.test"}, nil)
	var dns *net.DNSError
	if !errors.As(err, &dns) || !strings.HasPrefix(err.Error(), "dns host.test: ") {
		t.Errorf("got %v", err)
	}
}

func TestAddress(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := address(u); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	f("ws://x", "x:80")
	f("wss://x/", "x:443")
	f("wss://x:1/", "x:1")
	f("ws://[::1]/", "[::1]:80")
	f("wss://[::1]:2", "[::1]:2")
}

func TestDialTimingTellsStepsApart(t *testing.T) {
	const pause = 20 * time.Millisecond
	u := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		time.Sleep(pause)
		c.SendString(wiretest.Switching(req))
	})
	d := &Dialer{NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(pause)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	timing := mustDial(t, d, u.URL(), nil).Timing
	if timing.TCP < pause || timing.Upgrade < pause {
		t.Errorf("timing %+v", timing)
	}
}

// A context that ends while the 101 is being read leaves a deadline of the past on the socket: no such socket may get
// out of Dial.
func TestDialWhoseContextEndsAtTheLastByte(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	conn := &lastByte{end: cancel}
	conn.server = server{t: t, answer: []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" +
		"Connection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n")}
	d := &Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	up, err := d.Dial(ctx, &url.URL{Scheme: "ws", Host: "x"}, nil, nil)
	if !errors.Is(err, context.Canceled) || up != nil || !conn.closed {
		t.Errorf("got %v, %v, closed: %t", up, err, conn.closed)
	}
}

// lastByte is a server that ends the dial's context when it has answered.
type lastByte struct {
	server
	end    func()
	closed bool
}

func (c *lastByte) Read(p []byte) (int, error) {
	defer c.end()
	return c.server.Read(p)
}

func (c *lastByte) SetDeadline(time.Time) error { return nil }

func (c *lastByte) Close() error {
	c.closed = true
	return nil
}

func TestTLSConfig(t *testing.T) {
	u := &url.URL{Scheme: "wss", Host: "host.test:1"}
	f := func(given *tls.Config, name string, version uint16) {
		t.Helper()
		got := (&Dialer{TLSConfig: given}).tlsConfig(u)
		if got.ServerName != name || got.MinVersion != version || got == given {
			t.Errorf("server name %q, version %#x", got.ServerName, got.MinVersion)
		}
	}
	f(nil, "host.test", tls.VersionTLS12)
	f(&tls.Config{ServerName: "a.test"}, "a.test", tls.VersionTLS12)
	f(&tls.Config{MinVersion: tls.VersionTLS13}, "host.test", tls.VersionTLS13)
}
