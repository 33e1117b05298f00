package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// frontDoor serves ReadRequest on loopback: it answers a good request with 101, naming what it understood, and echoes
// the bytes behind the head; it refuses with WriteError.
func frontDoor(t *testing.T, timeout time.Duration) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = ln.Close() })
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveOne(t, conn, timeout) })
		}
	})
	return ln.Addr().String()
}

func serveOne(t *testing.T, conn net.Conn, timeout time.Duration) {
	defer func() { _ = conn.Close() }()
	req, rest, err := ReadRequest(conn, timeout)
	var refused *RequestError
	if errors.As(err, &refused) {
		if err := WriteError(conn, refused.Status, refused.Code, refused.Message, nil); err != nil {
			t.Logf("answer: %v", err)
		}
		return
	}
	if err != nil {
		return
	}
	head := req.Accept("", http.Header{"X-Path": {req.Path}, "X-Model": {req.Query.Get("model")}, "X-Host": {req.Host}})
	if _, err := conn.Write(append(head, rest...)); err != nil {
		return
	}
	_, _ = io.Copy(conn, conn)
}

func TestHandshakeOverSocket(t *testing.T) {
	c := wiretest.Dial(t, frontDoor(t, time.Second))
	c.SendString(wiretest.HSWith("//v1/%72ealtime?model=m%201") + "behind")
	h := c.Expect101()
	if h.Get("X-Path") != "/v1/realtime" || h.Get("X-Model") != "m 1" || h.Get("X-Host") != "x" {
		t.Errorf("understood %v", h)
	}
	c.ExpectBytes([]byte("behind"))
	c.SendString("more")
	c.ExpectBytes([]byte("more"))
}

func TestAccept(t *testing.T) {
	req := mustParse(t, wiretest.HSWith("", "Sec-WebSocket-Protocol: realtime, other"))
	base := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + wiretest.Accept + "\r\n"
	f := func(protocol string, extra http.Header, want string) {
		t.Helper()
		if got := string(req.Accept(protocol, extra)); got != base+want+"\r\n" {
			t.Errorf("got %q", got)
		}
	}
	f("", nil, "")
	f("realtime", nil, "Sec-WebSocket-Protocol: realtime\r\n")
	f("not-offered", nil, "")
	f("", http.Header{"X-B": {"1", "2"}, "X-A": {"0"}}, "X-A: 0\r\nX-B: 1\r\nX-B: 2\r\n")
	f("", http.Header{"X-A": {"0\r\nX-Evil: 1"}, "X B": {"1"}, "X-C": {"\n"}}, "")
}

func TestCaseF3SplitHead(t *testing.T) {
	want := mustParse(t, wiretest.HSWith("", "OpenAI-Beta: realtime=v1"))
	head := wiretest.HSWith("", "OpenAI-Beta: realtime=v1")
	f := func(cut func(c net.Conn)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			go func() { cut(client) }()
			got, rest, err := ReadRequest(server, HandshakeTimeout)
			if err != nil || len(rest) != 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v (%v) and % x behind it, want %+v", got, err, rest, want)
			}
			// The head's deadline must not strike later.
			go func() { time.Sleep(2 * HandshakeTimeout); _, _ = client.Write([]byte("x")); _ = client.Close() }()
			if b, err := io.ReadAll(server); string(b) != "x" || err != nil {
				t.Errorf("later got %q, %v", b, err)
			}
		})
	}
	write := func(c net.Conn, s string) {
		if _, err := c.Write([]byte(s)); err != nil {
			t.Error(err)
		}
	}
	f(func(c net.Conn) {
		line := strings.Index(head, "\r\n") + 2
		write(c, head[:line])
		time.Sleep(50 * time.Millisecond)
		write(c, head[line:])
	})
	f(func(c net.Conn) {
		for i := range len(head) {
			write(c, head[i:i+1])
			time.Sleep(5 * time.Millisecond)
		}
	})
	for cut := range len(head) {
		f(func(c net.Conn) { write(c, head[:cut]); time.Sleep(time.Millisecond); write(c, head[cut:]) })
	}
}

func TestCaseF10NoExtension(t *testing.T) {
	c := wiretest.Dial(t, frontDoor(t, time.Second))
	c.SendString(wiretest.HSWith("", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"))
	if h := c.Expect101(); h["Sec-Websocket-Extensions"] != nil {
		t.Errorf("accepted %q", h["Sec-Websocket-Extensions"])
	}
}

func TestCaseG1TokenLists(t *testing.T) {
	addr := frontDoor(t, time.Second)
	f := func(from, to string, status int) {
		t.Helper()
		c := wiretest.Dial(t, addr)
		head := strings.Replace(wiretest.HS, from, to, 1)
		if head == wiretest.HS {
			t.Fatalf("%q not in the request", from)
		}
		c.SendString(head)
		if status == 101 {
			c.Expect101()
			return
		}
		c.ExpectStatus(status)
		c.ExpectEOF()
	}
	f("Connection: Upgrade", "Connection: keep-alive, Upgrade", 101)
	f("Connection: Upgrade", "connection: UPGRADE", 101)
	f("Connection: Upgrade", "Connection:,upgrade ,", 101)
	f("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade", 101)
	f("Connection: Upgrade", "Connection: Upgrade\r\nConnection: keep-alive", 101)
	f("Upgrade: websocket", "Upgrade: WebSocket", 101)
	f("Upgrade: websocket", "upgrade:WEBSOCKET", 101)
	f("Upgrade: websocket", "Upgrade: h2c, websocket", 101)
	f("Connection: Upgrade", "Connection: notupgrade", 400)
	f("Connection: Upgrade", "Connection: upgrade-insecure", 400)
	f("Connection: Upgrade", "Connection: keep-alive upgrade", 400)
	f("Connection: Upgrade", "Connection:", 400)
	f("Upgrade: websocket", "Upgrade: websockets", 426)
	f("Upgrade: websocket", "Upgrade: web socket", 426)
}

func TestCaseG3HopByHop(t *testing.T) {
	f := func(connection string, lines ...string) {
		t.Helper()
		head := strings.Replace(wiretest.HSWith("", lines...), "Connection: Upgrade", connection, 1)
		req := mustParse(t, head)
		for name := range req.Header {
			switch name {
			case "Sec-Websocket-Key", "Sec-Websocket-Version", "X-Good":
			default:
				t.Errorf("%q: %s is still there", connection, name)
			}
		}
		if req.Header.Get("X-Good") != "1" {
			t.Errorf("%q: X-Good is lost", connection)
		}
	}
	f("Connection:\r\nConnection: Upgrade, X-Evil", "X-Evil: 1", "X-Good: 1")
	f("Connection: Upgrade\r\nConnection: X-Evil", "X-Evil: 1", "X-Good: 1")
	f("Connection: X-Evil\r\nConnection: \r\nConnection: Upgrade", "X-Evil: 1", "x-evil: 2", "X-Good: 1")
	f("Connection: ,, x-EVIL ,upgrade,\tX-Worse", "X-Worse: 1", "X-Evil: 1", "X-Good: 1")
	f("Connection: close, Connection, Upgrade, X-Evil", "X-Evil: 1", "X-Good: 1")
	f("Connection: Upgrade", "Keep-Alive: 5", "Proxy-Connection: x", "TE: trailers", "Trailer: X",
		"Proxy-Authorization: Basic x", "Proxy-Authenticate: Basic", "X-Good: 1")
}

func TestCaseG6OneAnswerThenFIN(t *testing.T) {
	addr := frontDoor(t, time.Second)
	f := func(request string, status int) (head string) {
		t.Helper()
		c := wiretest.Dial(t, addr)
		c.SendString(request + "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		_, body := c.ExpectStatus(status)
		c.ExpectEOF()
		received := string(c.Received())
		if strings.Count(received, "HTTP/1.1 ") != 1 || !strings.Contains(received, "\r\nConnection: close\r\n") {
			t.Errorf("got %q", received)
		}
		var e struct {
			Error struct {
				Message, Type, Code string
				Param               *string
			}
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" || e.Error.Code == "" ||
			e.Error.Type != "invalid_request_error" || !strings.Contains(body, `"param":null`) {
			t.Errorf("body %s: %v", body, err)
		}
		head, _, _ = strings.Cut(received, "\r\n\r\n")
		return head
	}
	f("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 426)
	f(strings.Replace(wiretest.HS, "Key: d", "Key: !", 1), 400)
	f(strings.Replace(wiretest.HS, "Host: x", "Host: x\r\nHost: y", 1), 400)
	f(strings.Replace(wiretest.HS, "GET /", "GET /\x00", 1), 400)
	f(wiretest.HSWith("", "X: "+strings.Repeat("y", 100<<10)), 431)
	if head := f(strings.Replace(wiretest.HS, "GET", "POST", 1), 405); !strings.Contains(head, "\r\nAllow: GET") {
		t.Errorf("405 with %q", head)
	}
	head := f(strings.Replace(wiretest.HS, "Version: 13", "Version: 8", 1), 426)
	for _, line := range []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"} {
		if !strings.Contains(head, "\r\n"+line) {
			t.Errorf("426 without %s: %q", line, head)
		}
	}
}

func TestWriteError(t *testing.T) {
	var out bytes.Buffer
	conn := &memConn{Writer: &out}
	extra := http.Header{"Retry-After": {"7"}, "X-Evil": {"a\r\nb: c"}}
	if err := WriteError(conn, 429, "rate_limited", "slow \"down\"\r\n", extra); err != nil {
		t.Fatal(err)
	}
	want := "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 105\r\n" +
		"Connection: close\r\nRetry-After: 7\r\n\r\n" +
		`{"error":{"message":"slow \"down\"\r\n","type":"rate_limit_error","code":"rate_limited","param":null}}`
	want = strings.Replace(want, "105", fmt.Sprint(len(want)-strings.Index(want, "{")), 1)
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
	out.Reset()
	if err := WriteError(conn, 503, "draining", "draining", nil); err != nil || !strings.Contains(out.String(), `"server_error"`) {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestWriteErrorToADeafPeerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := net.Pipe() // nobody reads
		start := time.Now()
		err := WriteError(server, 400, "x", "x", nil)
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != answerTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestCaseH4Slowloris(t *testing.T) {
	const timeout = 300 * time.Millisecond
	addr := frontDoor(t, timeout)
	var slow []*wiretest.Client
	start := time.Now()
	for i := range 60 {
		c := wiretest.Dial(t, addr)
		if i < 50 {
			c.SendString("GET / HTTP/1.1\r\nHost: x\r\n")
		}
		slow = append(slow, c)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(timeout / 5):
			}
			for _, c := range slow[:50] {
				_ = c.TrySend([]byte("X: y\r\n")) // it is closed at some point
			}
		}
	})
	wiretest.Connect(t, addr) // served beside them
	for i, c := range slow {
		if i < 50 {
			c.ExpectStatus(408)
		}
		c.ExpectEOF()
	}
	if took := time.Since(start); took > timeout+10*time.Second {
		t.Errorf("the last was gone after %v", took)
	}
	close(stop)
	wg.Wait()
}

func BenchmarkHandshake(b *testing.B) {
	head := wiretest.HSWith("/v1/realtime?model=gpt-realtime", "Authorization: Bearer sk-test-1", "User-Agent: test")
	reader := strings.NewReader(head)
	conn := &memConn{Reader: reader}
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(head)
		req, _, err := ReadRequest(conn, 0)
		if err != nil {
			b.Fatal(err)
		}
		req.Accept("", nil)
	}
}
