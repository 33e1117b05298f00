package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

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
	if took := time.Since(start); took > 10*time.Second {
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
	if n > 18 {
		t.Errorf("%v allocations for one answer", n)
	}
}
