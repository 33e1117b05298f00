package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// parse runs head through ReadRequest as one piece.
func parse(head string) (*Request, []byte, error) {
	return ReadRequest(&memConn{Reader: strings.NewReader(head)}, 0)
}

// memConn is a net.Conn over memory.
type memConn struct {
	net.Conn
	io.Reader
	io.Writer
}

func (c *memConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (c *memConn) Write(p []byte) (int, error) { return c.Writer.Write(p) }

func (c *memConn) SetReadDeadline(time.Time) error { return nil }

func (c *memConn) SetWriteDeadline(time.Time) error { return nil }

func mustParse(t *testing.T, head string) *Request {
	t.Helper()
	req, _, err := parse(head)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	return req
}

func TestRequestTarget(t *testing.T) {
	f := func(target, path, query, host string) {
		t.Helper()
		req := mustParse(t, wiretest.HSWith(target))
		if req.Target != target || req.Path != path || req.Query.Encode() != query || req.Host != host {
			t.Errorf("%s: path %q, query %q, host %q", target, req.Path, req.Query.Encode(), req.Host)
		}
	}
	f("/", "/", "", "x")
	f("/?", "/", "", "x")
	f("/v1/realtime?model=a&model=b", "/v1/realtime", "model=a&model=b", "x")
	f("//ws//a///b/", "/ws/a/b/", "", "x")
	f("//evil.example/x", "/evil.example/x", "", "x")
	f("/a%2F%2fb", "/a/b", "", "x")
	f("/a%252Fb", "/a%2Fb", "", "x") // once
	f("/a+b?q=a+b", "/a+b", "q=a+b", "x")
	f("/../a/./b", "/../a/./b", "", "x")
	f("http://other:81/p?q=1", "/p", "q=1", "other:81")
	f("WS://other", "/", "", "other")
	f("https://other?q=1", "/", "q=1", "other")
	f("http://other//p", "/p", "", "other")
}

func TestRequestRefused(t *testing.T) {
	without := func(name string) string {
		var kept []string
		for line := range strings.SplitSeq(wiretest.HS, "\r\n") {
			if !strings.HasPrefix(line, name+":") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\r\n")
	}
	with := func(name, value string) string {
		return strings.Replace(without(name), "\r\n\r\n", "\r\n"+name+": "+value+"\r\n\r\n", 1)
	}
	first := func(line string) string {
		_, rest, _ := strings.Cut(wiretest.HS, "\r\n")
		return line + "\r\n" + rest
	}
	f := func(what, head string, status int, code string) {
		t.Helper()
		req, _, err := parse(head)
		var refused *RequestError
		if !errors.As(err, &refused) || refused.Status != status || refused.Code != code || refused.Message == "" || req != nil {
			t.Errorf("%s: got %#v, want %d %s", what, err, status, code)
		}
	}
	const bad = "malformed_request"
	f("POST", first("POST / HTTP/1.1"), 405, "method_not_allowed")
	f("lower-case method", first("get / HTTP/1.1"), 405, "method_not_allowed")
	f("HTTP/1.0", first("GET / HTTP/1.0"), 505, "unsupported_http_version")
	f("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\n", 505, "unsupported_http_version")
	f("no version", first("GET /"), 400, bad)
	f("version of words", first("GET / HTTP/1.x"), 400, bad)
	f("long version", first("GET / HTTP/1.10"), 400, bad)
	f("two spaces", first("GET  / HTTP/1.1"), 400, bad)
	f("space behind", first("GET / HTTP/1.1 "), 400, bad)
	f("space in the target", first("GET /a b HTTP/1.1"), 400, bad)
	f("tab in the target", first("GET /a\tb HTTP/1.1"), 400, bad)
	f("target beyond ASCII", first("GET /é HTTP/1.1"), 400, bad)
	f("method not a token", first("G(T / HTTP/1.1"), 400, bad)
	f("empty line first", "\r\n"+wiretest.HS, 400, bad)
	f("asterisk form", first("GET * HTTP/1.1"), 400, bad)
	f("authority form", first("GET x:80 HTTP/1.1"), 400, bad)
	f("relative target", first("GET v1 HTTP/1.1"), 400, bad)
	f("another scheme", first("GET file://x/y HTTP/1.1"), 400, bad)
	f("user in the target", first("GET http://u@x/ HTTP/1.1"), 400, bad)
	f("no authority", first("GET http:///p HTTP/1.1"), 400, bad)
	f("fragment", first("GET /p#f HTTP/1.1"), 400, bad)
	f("broken escape", first("GET /%zz HTTP/1.1"), 400, bad)
	f("escaped NUL", first("GET /a%00b HTTP/1.1"), 400, bad)
	f("broken query escape", first("GET /?a=%z HTTP/1.1"), 400, bad)
	f("semicolon in the query", first("GET /?a=1;b=2 HTTP/1.1"), 400, bad)

	f("bare LF", strings.ReplaceAll(wiretest.HS, "\r\n", "\n"), 400, bad)
	f("one bare LF", wiretest.HSWith("", "A: b\nC: d"), 400, bad)
	f("bare CR", wiretest.HSWith("", "A: b\rC: d"), 400, bad)
	f("CR CR LF", wiretest.HSWith("", "A: b\r"), 400, bad)
	f("NUL", wiretest.HSWith("", "A: b\x00c"), 400, bad)
	f("DEL", wiretest.HSWith("", "A: b\x7f"), 400, bad)
	f("TLS", "\x16\x03\x01\x02\x00\x01", 400, bad)
	f("folded line", wiretest.HSWith("", "A: b", " c"), 400, bad)
	f("folded first line", strings.Replace(wiretest.HS, "Host", "\tHost", 1), 400, bad)
	f("no colon", wiretest.HSWith("", "A"), 400, bad)
	f("no name", wiretest.HSWith("", ": b"), 400, bad)
	f("space before the colon", wiretest.HSWith("", "A : b"), 400, bad)
	f("name beyond ASCII", wiretest.HSWith("", "Ä: b"), 400, bad)

	f("no upgrade", without("Upgrade"), 426, "upgrade_required")
	f("plain GET", "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", 426, "upgrade_required")
	f("another upgrade", with("Upgrade", "h2c"), 426, "upgrade_required")
	f("no connection", without("Connection"), 400, bad)
	f("no version", without("Sec-WebSocket-Version"), 400, bad)
	f("empty version", with("Sec-WebSocket-Version", ""), 400, bad)
	f("version 8", with("Sec-WebSocket-Version", "8"), 426, "unsupported_websocket_version")
	f("two versions in a line", with("Sec-WebSocket-Version", "13, 8"), 426, "unsupported_websocket_version")
	f("version twice", wiretest.HSWith("", "sec-websocket-version: 13"), 400, bad)
	f("no key", without("Sec-WebSocket-Key"), 400, bad)
	f("short key", with("Sec-WebSocket-Key", "AAAA"), 400, bad)
	f("key of 18 bytes", with("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAAAA"), 400, bad)
	f("key not base64", with("Sec-WebSocket-Key", "!!!!!!!!!!!!!!!!!!!!!!!!"), 400, bad)
	f("key twice", wiretest.HSWith("", "SEC-WEBSOCKET-KEY: "+wiretest.Key), 400, bad)
	f("no host", without("Host"), 400, bad)
	f("empty host", with("Host", ""), 400, bad)
	f("host twice", wiretest.HSWith("", "host: x"), 400, bad)
	f("host with a path", with("Host", "x/y"), 400, bad)
	f("no host but in the target", strings.Replace(without("Host"), "GET /", "GET http://x/", 1), 400, bad)
	f("body", wiretest.HSWith("", "Content-Length: 1"), 400, bad)
	f("two lengths", wiretest.HSWith("", "Content-Length: 0", "Content-Length: 0"), 400, bad)
	f("chunked", wiretest.HSWith("", "Transfer-Encoding: chunked"), 400, bad)
	f("empty coding", wiretest.HSWith("", "Transfer-Encoding:"), 400, bad)
	f("65 parameters", wiretest.HSWith("/?"+strings.Repeat("a&", 64)), 400, bad)
	f("65 subprotocols", wiretest.HSWith("", "Sec-WebSocket-Protocol: "+strings.Repeat("a,", 65)), 400, bad)
	f("subprotocol not a token", wiretest.HSWith("", "Sec-WebSocket-Protocol: a b"), 400, bad)

	lines := make([]string, MaxHeadLines)
	for i := range lines {
		lines[i] = fmt.Sprintf("X-%d: y", i)
	}
	const own = 6 // lines of HS
	if req := mustParse(t, wiretest.HSWith("", lines[:MaxHeadLines-own]...)); req.Header.Get("X-57") != "y" {
		t.Errorf("the last of %d lines is lost", MaxHeadLines)
	}
	f("a line too many", wiretest.HSWith("", lines[:MaxHeadLines-own+1]...), 431, "head_too_large")
	fill := func(n int) string {
		return wiretest.HSWith("", "X: "+strings.Repeat("y", n-len(wiretest.HS)-len("X: \r\n")))
	}
	if req := mustParse(t, fill(MaxHeadBytes)); len(req.Header.Get("X")) < MaxHeadBytes-300 {
		t.Error("a head of the largest size was cut")
	}
	f("a byte too many", fill(MaxHeadBytes+1), 431, "head_too_large")
	f("one endless line", strings.Repeat("a", 1<<20), 431, "head_too_large")
}

func TestRequestRefusalHoldsNothingSent(t *testing.T) {
	for _, head := range []string{
		wiretest.HSWith("/?key=sk-test-QUERY&x=%z"),
		wiretest.HSWith("/sk-test-PATH%z"),
		wiretest.HSWith("http://sk-test-USER@x/"),
		wiretest.HSWith("", "sk-test-NAME : 1"),
		wiretest.HSWith("", "Sec-WebSocket-Protocol: sk-test PROTOCOL"),
		wiretest.HSWith("", "Content-Length: sk-test-LENGTH"),
	} {
		if _, _, err := parse(head); err == nil || strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%q: %v", head, err)
		}
	}
}

func TestRequestAccepted(t *testing.T) {
	f := func(lines ...string) *Request {
		t.Helper()
		return mustParse(t, wiretest.HSWith("", lines...))
	}
	if req := f("Content-Length: 0", "content-type: application/json"); req.Header.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", req.Header)
	}
	req := f("X-A:  b\t ", "x-a: c", "X-B: caf\xe9", "X-C:")
	want := http.Header{
		"X-A": {"b", "c"}, "X-B": {"caf\xe9"}, "X-C": {""},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {wiretest.Key},
	}
	if !reflect.DeepEqual(req.Header, want) {
		t.Errorf("header %v, want %v", req.Header, want)
	}
	req = f("Sec-WebSocket-Protocol: realtime,, b", "Sec-WebSocket-Protocol: openai-insecure-api-key.sk-test-1")
	if want := []string{"realtime", "b", "openai-insecure-api-key.sk-test-1"}; !reflect.DeepEqual(req.Subprotocols, want) {
		t.Errorf("subprotocols %q", req.Subprotocols)
	}
	mustParse(t, wiretest.HSWith("/?"+strings.Repeat("a&", 63)))
	f("Sec-WebSocket-Protocol: " + strings.Repeat("a,", 64))
	mustParse(t, strings.Replace(wiretest.HS, "HTTP/1.1", "HTTP/1.2", 1)) // RFC 9110 section 2.5
}

func TestBytesBehindTheHeadAreKept(t *testing.T) {
	for _, n := range []int{0, 1, 11, 5000, MaxHeadBytes} {
		behind := bytes.Repeat([]byte{0x81}, n)
		conn := &memConn{Reader: strings.NewReader(wiretest.HS + string(behind))}
		_, rest, err := ReadRequest(conn, 0)
		if err != nil {
			t.Fatal(err)
		}
		unread, err := io.ReadAll(conn.Reader)
		if err != nil || !bytes.Equal(append(rest, unread...), behind) {
			t.Errorf("of %d bytes behind the head %d came out and %d are left", n, len(rest), len(unread))
		}
		if len(rest) > MaxHeadBytes {
			t.Errorf("%d bytes held", len(rest))
		}
	}
}

func TestRequestDeadlineIsTotal(t *testing.T) {
	f := func(every time.Duration, piece string, want error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				for {
					time.Sleep(every)
					if _, err := client.Write([]byte(piece)); err != nil {
						return
					}
				}
			})
			start := time.Now()
			_, _, err := ReadRequest(server, 3*time.Second)
			_ = server.Close()
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("took %v", took)
			}
			var refused *RequestError
			if errors.As(err, &refused); want == nil && (refused == nil || refused.Status != 408) || want != nil && !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		})
	}
	f(7*time.Millisecond, "a", nil) // a drip of single bytes
	f(time.Second-time.Millisecond, "X", nil)
	f(time.Hour, "", os.ErrDeadlineExceeded) // silence gets no answer
}

func TestRequestCutShort(t *testing.T) {
	f := func(head string, want error) {
		t.Helper()
		if _, _, err := parse(head); err != want {
			t.Errorf("%q: got %v, want %v", head, err, want)
		}
	}
	f("", io.EOF)
	f("G", io.ErrUnexpectedEOF)
	f(wiretest.HS[:len(wiretest.HS)-1], io.ErrUnexpectedEOF)
}

func TestRequestAllocations(t *testing.T) {
	head := wiretest.HSWith("/v1/realtime?model=gpt-realtime", "Authorization: Bearer sk-test-1", "OpenAI-Beta: realtime=v1", "User-Agent: test")
	reader := strings.NewReader(head)
	conn := &memConn{Reader: reader}
	n := testing.AllocsPerRun(200, func() {
		reader.Reset(head)
		if _, _, err := ReadRequest(conn, 0); err != nil {
			t.Fatal(err)
		}
	})
	if n > 34 {
		t.Errorf("%v allocations for one handshake", n)
	}
}

// A hostile head must not cost more memory than the bounds allow, however long the peer sends.
func TestRequestMemoryIsBounded(t *testing.T) {
	f := func(what string, ceiling uint64, head string) {
		t.Helper()
		var before, after runtime.MemStats
		const runs = 20
		runtime.ReadMemStats(&before)
		for range runs {
			if _, _, err := parse(head); err == nil {
				t.Fatalf("%s: accepted", what)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > ceiling {
			t.Errorf("%s: %d bytes allocated", what, got)
		}
	}
	f("one endless line", 3*MaxHeadBytes, "GET /"+strings.Repeat("a", 8<<20))
	f("endless lines", 3*MaxHeadBytes, "GET / HTTP/1.1\r\n"+strings.Repeat("a: b\r\n", 1<<20))
	f("a query of many names", 6*MaxHeadBytes, wiretest.HSWith("/?"+strings.Repeat("a&", 7<<10), "Host: y"))
	f("a long list", 6*MaxHeadBytes, wiretest.HSWith("", "Sec-WebSocket-Protocol: "+strings.Repeat("a,", 7<<10)))
	f("a list of empty elements", 6*MaxHeadBytes, wiretest.HSWith("", "Sec-WebSocket-Protocol: "+strings.Repeat(",", 15<<10)+"("))
	f("a few bytes", 2<<10, "GET \x00")
}
