package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

var secrets = Plain{Method: "POST", Path: "/v1/secrets", MaxBody: 16}

// readPlain reads what a client sends; rejected is the status that it is refused with.
func readPlain(t *testing.T, timeout time.Duration, send func(c *wiretest.Client)) (req *Request, rest []byte, err error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := wiretest.Dial(t, ln.Addr().String())
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		send(c)
	}()
	req, rest, err = ReadRequestOr(conn, timeout, secrets)
	<-done
	return req, rest, err
}

func TestOnePlainRequestIsLetThrough(t *testing.T) {
	f := func(head, body, more string) {
		t.Helper()
		for _, cut := range []int{0, 1, 40, len(head), len(head) + 1} {
			req, rest, err := readPlain(t, time.Second, func(c *wiretest.Client) {
				whole := head + body + more
				cut = min(cut, len(whole))
				_ = c.TrySend([]byte(whole[:cut]))
				time.Sleep(2 * time.Millisecond)
				_ = c.TrySend([]byte(whole[cut:]))
			})
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if !req.Plain || req.Path != "/v1/secrets" || string(req.Body) != body || !strings.HasPrefix(more, string(rest)) {
				t.Errorf("cut at %d: %+v, body %q, rest %q", cut, req, req.Body, rest)
			}
		}
	}
	f("POST /v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", "{\"\"}", "")
	f("POST //v1/secrets?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", "body", "GET / HTTP/1.1\r\n\r\n")
	f("POST /v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "", "")
	f("POST /v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n", strings.Repeat("a", 16), "")
}

func TestEveryOtherPlainRequestIsRefused(t *testing.T) {
	f := func(status int, request string) {
		t.Helper()
		_, _, err := readPlain(t, 200*time.Millisecond, func(c *wiretest.Client) { _ = c.TrySend([]byte(request)) })
		bad, ok := err.(*RequestError)
		if !ok || bad.Status != status {
			t.Errorf("%q: %v, want %d", request, err, status)
		}
	}
	const tail = " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
	f(http.StatusMethodNotAllowed, "POST /v1/other"+tail)
	f(http.StatusMethodNotAllowed, "PUT /v1/secrets"+tail)
	f(http.StatusUpgradeRequired, "GET /v1/secrets"+tail)
	f(http.StatusHTTPVersionNotSupported, "POST /v1/secrets HTTP/1.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	g := func(status int, lines string) {
		t.Helper()
		f(status, "POST /v1/secrets HTTP/1.1\r\n"+lines+"\r\n{}")
	}
	g(http.StatusBadRequest, "Content-Length: 2\r\n")
	g(http.StatusBadRequest, "Host: x\r\nHost: y\r\nContent-Length: 2\r\n")
	g(http.StatusLengthRequired, "Host: x\r\n")
	g(http.StatusLengthRequired, "Host: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n")
	g(http.StatusBadRequest, "Host: x\r\nContent-Length: +2\r\n")
	g(http.StatusBadRequest, "Host: x\r\nContent-Length: 2, 2\r\n")
	g(http.StatusBadRequest, "Host: x\r\nContent-Length: 99999999999999999999\r\n")
	g(http.StatusBadRequest, "Host: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n")
	g(http.StatusRequestEntityTooLarge, "Host: x\r\nContent-Length: 17\r\n")
	g(http.StatusRequestTimeout, "Host: x\r\nContent-Length: 3\r\n")
}

func TestAPlainRequestThatAsksMayContinue(t *testing.T) {
	req, _, err := readPlain(t, time.Second, func(c *wiretest.Client) {
		_ = c.TrySend([]byte("POST /v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"))
		if head, err := c.TryReadHead(); err != nil || !strings.HasPrefix(head, "HTTP/1.1 100 ") {
			t.Errorf("%q, %v", head, err)
		}
		_ = c.TrySend([]byte("{}"))
	})
	if err != nil || string(req.Body) != "{}" {
		t.Errorf("%+v, %v", req, err)
	}
}

// net/http is the other reader of the same bytes: what is let through is what it would understand.
func FuzzPlainRequest(f *testing.F) {
	for _, seed := range []string{
		"POST /v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST //v1/%73ecrets?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 0002\r\n\r\n{}GET",
		"POST http://x/v1/secrets HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		reader := bytes.NewReader(sent)
		got, rest, err := ReadRequestOr(&memConn{Reader: reader, Writer: io.Discard}, time.Second, secrets)
		if err != nil || !got.Plain {
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", sent, err)
		}
		body, err := io.ReadAll(want.Body)
		if err != nil || want.Method != "POST" || !bytes.Equal(body, got.Body) || len(got.Body) > secrets.MaxBody || len(want.TransferEncoding) > 0 {
			t.Fatalf("net/http reads %s %q (%v), got %q", want.Method, body, err, got.Body)
		}
		if head := len(sent) - reader.Len() - len(rest) - len(got.Body); head < 0 || !bytes.HasSuffix(sent[:head], []byte("\r\n\r\n")) {
			t.Fatalf("the body of %q does not begin behind the head", sent)
		}
	})
}
