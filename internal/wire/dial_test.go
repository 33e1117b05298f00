package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

// answering is an upstream that answers with what respond renders for the request and then ends its sending.
func answering(t *testing.T, respond func(req *http.Request) string) *wiretest.Upstream {
	return wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		_ = c.TrySend([]byte(respond(c.ReadRequest()))) // a long answer may be cut short by the other end
		c.FIN()
		if _, err := c.TryReadFrame(); err == nil {
			t.Error("a frame was sent")
		}
	})
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

func TestCaseF1FrameBehindThe101(t *testing.T) {
	frame := wiretest.Hex(t, "81 07 7b 22 6e 22 3a 31 7d")
	cut := make(chan int, 1)
	u := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		all := append([]byte(wiretest.Switching(c.ReadRequest())), frame...)
		n := <-cut
		c.Send(all[:n])
		if n < len(all) {
			time.Sleep(5 * time.Millisecond) // the case's own pause: the reader must have seen the first piece alone
			c.Send(all[n:])
		}
	})
	f := func(n int) {
		t.Helper()
		cut <- n
		up := mustDial(t, &Dialer{}, u.URL(), nil)
		later, err := io.ReadAll(up.Conn)
		if err != nil || !bytes.Equal(append(up.Early, later...), frame) {
			t.Errorf("cut at %d: % x early, % x later, %v", n, up.Early, later, err)
		}
	}
	whole := len(wiretest.Switching(&http.Request{})) + len(frame)
	for n := 1; n <= whole; n++ {
		f(n)
	}
}

func TestCaseF10UnofferedExtension(t *testing.T) {
	f := func(lines ...string) {
		t.Helper()
		u := answering(t, func(req *http.Request) string { return wiretest.Switching(req, lines...) })
		_, err := dial(t, &Dialer{}, u.URL(), nil)
		if !errors.Is(err, ErrBadHandshake) {
			t.Errorf("%q: got %v", lines, err)
		}
		if strings.Contains(strings.ToLower(u.Conn(1).Head()), "sec-websocket-extensions") {
			t.Error("an extension was offered")
		}
	}
	f("Sec-WebSocket-Extensions: permessage-deflate")
	f("sec-websocket-extensions: ,x")
	f("Sec-WebSocket-Extensions:", "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover")
}

func TestCaseG8BrokenAnswer(t *testing.T) {
	right := func(req *http.Request) string { return wiretest.Switching(req) }
	without := func(name string) func(req *http.Request) string {
		return func(req *http.Request) string {
			head := wiretest.Switching(req)
			at := strings.Index(head, name+":")
			end := at + strings.Index(head[at:], "\r\n") + 2
			return head[:at] + head[end:]
		}
	}
	replaced := func(from, to string) func(req *http.Request) string {
		return func(req *http.Request) string { return strings.Replace(wiretest.Switching(req), from, to, 1) }
	}
	good := func(what string, respond func(req *http.Request) string) {
		t.Helper()
		if _, err := dial(t, &Dialer{}, answering(t, respond).URL(), nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := func(what string, respond func(req *http.Request) string) {
		t.Helper()
		if _, err := dial(t, &Dialer{}, answering(t, respond).URL(), nil); !errors.Is(err, ErrBadHandshake) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	good("the right answer", right)
	good("no reason", replaced(" Switching Protocols", ""))
	good("no reason but its space", replaced("Switching Protocols", ""))
	good("lower case", func(req *http.Request) string {
		head := wiretest.Switching(req)
		head = strings.Replace(head, "Upgrade: websocket", "upgrade: WebSocket", 1)
		return strings.Replace(head, "Connection: Upgrade", "connection: keep-alive, UPGRADE", 1)
	})
	good("an empty extension list", func(req *http.Request) string { return wiretest.Switching(req, "Sec-WebSocket-Extensions:") })
	good("behind interim answers", func(req *http.Request) string {
		return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + wiretest.Switching(req)
	})

	bad("no Upgrade", without("Upgrade"))
	bad("no Connection", without("Connection"))
	bad("no accept", without("Sec-WebSocket-Accept"))
	bad("short accept", func(*http.Request) string {
		return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n"
	})
	bad("accept of another key", func(*http.Request) string { return wiretest.Switching(&http.Request{}) })
	bad("two accepts", func(req *http.Request) string { return wiretest.Switching(req, "Sec-WebSocket-Accept: AAAA") })
	bad("another upgrade", replaced("websocket", "h2c"))
	bad("another connection", replaced("Connection: Upgrade", "Connection: close"))
	bad("HTTP/1.0", replaced("HTTP/1.1", "HTTP/1.0"))
	bad("HTTP/2", replaced("HTTP/1.1", "HTTP/2"))
	bad("long status", replaced("101 ", "1010 "))
	bad("signed status", replaced("101 ", "+10 "))
	bad("no status", replaced("101 ", ""))
	bad("another protocol", func(*http.Request) string { return "SSH-2.0-x\r\n\r\n" })
	bad("a frame at once", func(*http.Request) string { return "\x81\x02\x03\x04" })
	bad("NUL", func(*http.Request) string { return strings.Repeat("\x00", 100) })
	bad("bare LF", func(req *http.Request) string { return strings.ReplaceAll(wiretest.Switching(req), "\r\n", "\n") })
	bad("folded line", func(req *http.Request) string { return wiretest.Switching(req, "A: b", " c") })
	bad("no colon", func(req *http.Request) string { return wiretest.Switching(req, "A") })
	bad("too many lines", func(req *http.Request) string {
		return wiretest.Switching(req, strings.Split(strings.Repeat("A: b,", MaxHeadLines), ",")[:MaxHeadLines]...)
	})
	bad("too many bytes", func(req *http.Request) string { return wiretest.Switching(req, "A: "+strings.Repeat("b", 1<<20)) })
	bad("endless interim answers", func(req *http.Request) string { return strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000) })
}

func TestCaseG8OtherStatus(t *testing.T) {
	f := func(answer string, want StatusError) {
		t.Helper()
		u := answering(t, func(*http.Request) string { return answer })
		_, err := dial(t, &Dialer{}, u.URL(), nil)
		var got *StatusError
		if !errors.As(err, &got) {
			t.Errorf("%.60q: got %v", answer, err)
			return
		}
		if got.Status != want.Status || got.RetryAfter != want.RetryAfter || string(got.Body) != string(want.Body) {
			t.Errorf("%.60q: got %d, %v, %.60q", answer, got.Status, got.RetryAfter, got.Body)
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), fmt.Sprint(want.Status)) {
			t.Errorf("error %q", err)
		}
		if u.Dials() != 1 {
			t.Errorf("%d dials: a redirect was followed", u.Dials())
		}
	}
	f("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokbehind", StatusError{Status: 200, Body: []byte("ok")})
	f("HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", StatusError{Status: 301})
	f("HTTP/1.1 401 Unauthorized\r\n\r\nup to the end", StatusError{Status: 401, Body: []byte("up to the end")})
	f("HTTP/1.0 404 Not Found\r\n\r\nold", StatusError{Status: 404, Body: []byte("old")})
	f("HTTP/1.1 500\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", StatusError{Status: 500, Body: []byte("abc")})
	f("HTTP/1.1 502 Bad\r\nContent-Length: x\r\n\r\nbody", StatusError{Status: 502})
	f("HTTP/1.1 503 No\r\n\r\n"+strings.Repeat("x", 1<<20), StatusError{Status: 503, Body: bytes.Repeat([]byte("x"), 4<<10)})
	f("HTTP/1.1 599 \r\nContent-Length: 10\r\n\r\nshort", StatusError{Status: 599, Body: []byte("short")})
	f("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nRetry-After: 7\r\n\r\nx", StatusError{Status: 429, RetryAfter: 7 * time.Second, Body: []byte("x")})
	f("HTTP/1.1 429 Slow\r\nretry-after: abc\r\n\r\n", StatusError{Status: 429})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	f("7", 7*time.Second)
	f("0", 0)
	f("", 0)
	f("abc", 0)
	f("-7", 0)
	f("+7", 0)
	f("7.5", 0)
	f("7, 8", 0)
	f("9999999999", 24*time.Hour)
	f("18446744073709551615", 24*time.Hour)
	f("99999999999999999999999999", 0)
	f("Fri, 02 Jan 2026 03:04:12 GMT", 7*time.Second)
	f("Friday, 02-Jan-26 03:04:12 GMT", 7*time.Second)
	f("Fri, 02 Jan 2026 03:04:00 GMT", 0)
	f("Fri, 02 Jan 9026 03:04:00 GMT", 24*time.Hour)
}

func TestStatusErrorDoesNotWaitForABodyForEver(t *testing.T) {
	u := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.ReadRequest()
		c.SendString("HTTP/1.1 401 Unauthorized\r\n\r\nsome")
		_, _ = c.TryReadFrame() // keeps it open until the other end closes
	})
	start := time.Now()
	_, err := dial(t, &Dialer{}, u.URL(), nil)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 401 || string(status.Body) != "some" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestCaseE9BrokenUpstreams(t *testing.T) {
	f := func(what, scheme, prefix string, want error, handler func(c *wiretest.UpstreamConn)) {
		t.Helper()
		u := wiretest.NewUpstream(t, handler)
		target := u.URL()
		target.Scheme = scheme
		if handler == nil {
			u.Refuse()
		}
		_, err := dial(t, &Dialer{}, target, nil)
		if err == nil || !strings.HasPrefix(err.Error(), prefix+" "+u.Addr()+": ") || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v", what, err)
		}
		u.Await("end", func(u *wiretest.Upstream) bool { return u.Open() == 0 }) // the dialer closed its end
	}
	until := func(c *wiretest.UpstreamConn) { _, _ = io.Copy(io.Discard, c.Conn) }
	f("refused port", "ws", "tcp", syscall.ECONNREFUSED, nil)
	f("alert", "wss", "tls", nil, func(c *wiretest.UpstreamConn) { c.SendHex("15 03 01 00 02 02 28"); until(c) })
	f("no TLS", "wss", "tls", nil, func(c *wiretest.UpstreamConn) { c.SendString("HTTP/1.1 400 Bad Request\r\n\r\n"); until(c) })
	f("reset before the answer", "ws", "upgrade", syscall.ECONNRESET, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.RST() })
	f("end before the answer", "ws", "upgrade", io.EOF, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.FIN(); until(c) })
	f("end in the answer", "ws", "upgrade", io.ErrUnexpectedEOF, func(c *wiretest.UpstreamConn) { c.Respond("HTTP/1.1 101 Sw"); until(c) })
	f("endless header", "ws", "upgrade", ErrBadHandshake, func(c *wiretest.UpstreamConn) {
		c.ReadRequest()
		_ = c.TrySend([]byte("HTTP/1.1 101 Switching Protocols\r\nA: " + strings.Repeat("b", 1<<20))) // cut short by the other end
	})
	f("NUL", "ws", "upgrade", ErrBadHandshake, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.Send(make([]byte, 100)); until(c) })
}

func TestReset101(t *testing.T) {
	u := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { c.Accept(); c.RST() })
	up, err := dial(t, &Dialer{}, u.URL(), nil)
	if err != nil {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
		return // the reset overtook the 101
	}
	if _, err := up.Conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
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
			if took := time.Since(start); took > 2*time.Second {
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

func TestDialAllocations(t *testing.T) {
	var answer bytes.Reader
	key := "dGhlIHNhbXBsZSBub25jZQ=="
	head := []byte(wiretest.Switching(&http.Request{Header: http.Header{"Sec-Websocket-Key": {key}}}, "Server: x", "Date: y"))
	n := testing.AllocsPerRun(200, func() {
		answer.Reset(head)
		x := &exchange{conn: &memConn{Reader: &answer, Writer: io.Discard}}
		if _, err := x.Read(make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
	})
	if n > 25 {
		t.Errorf("%v allocations for one answer", n)
	}
}
