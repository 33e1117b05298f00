package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// Whatever ReadRequest accepts, net/http must read alike; whatever comes, bounds and statuses hold, and cutting the
// head elsewhere changes nothing.
func FuzzReadRequest(f *testing.F) {
	for _, head := range []string{
		wiretest.HS,
		wiretest.HS + "behind",
		wiretest.HSWith("//a%2F//b?x=%20&y", "Connection:", "Connection: x-evil", "X-Evil: 1", "Content-Length: 0"),
		wiretest.HSWith("http://h:1?q", "Sec-WebSocket-Protocol: realtime, b", "X: \tcaf\xe9 "),
		wiretest.HSWith("", " folded"),
		wiretest.HSWith("ws://[::1]:80/p", "Transfer-Encoding: chunked"),
		"POST / HTTP/1.0\r\n\r\n",
		strings.ReplaceAll(wiretest.HS, "\r\n", "\n"),
	} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := bytes.NewReader(data)
		got, rest, err := ReadRequest(&memConn{Reader: reader}, 0)
		dripped, _, dripErr := ReadRequest(&memConn{Reader: oneByte{bytes.NewReader(data)}}, 0)
		if !reflect.DeepEqual(got, dripped) || (err == nil) != (dripErr == nil) || err != nil && err.Error() != dripErr.Error() {
			t.Fatalf("whole: %+v, %v; dripped: %+v, %v", got, err, dripped, dripErr)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		br := bufio.NewReaderSize(bytes.NewReader(data), MaxHeadBytes)
		want, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("accepted what net/http refuses: %v", err)
		}
		compareRequests(t, got, want)
		behind, _ := io.ReadAll(br)
		unread, _ := io.ReadAll(reader)
		if !bytes.Equal(append(rest, unread...), behind) {
			t.Errorf("behind the head: %q and %q, want %q", rest, unread, behind)
		}
		head := got.Accept("", nil)
		if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil); err != nil || resp.StatusCode != 101 {
			t.Errorf("answer %q: %v", head, err)
		}
	})
}

// oneByte reads one byte at a time.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return
	}
	var refused *RequestError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	switch refused.Status {
	case 400, 405, 426, 431, 505:
	default:
		t.Errorf("status %d", refused.Status)
	}
}

func compareRequests(t *testing.T, got *Request, want *http.Request) {
	t.Helper()
	query, err := url.ParseQuery(want.URL.RawQuery)
	if err != nil || !reflect.DeepEqual(got.Query, query) {
		t.Errorf("query %v, want %v (%v)", got.Query, query, err)
	}
	if path := collapse("/" + want.URL.Path); got.Path != path {
		t.Errorf("path %q, want %q", got.Path, path)
	}
	if got.Host != want.Host || got.Target != want.RequestURI {
		t.Errorf("host %q of %q, want %q of %q", got.Host, got.Target, want.Host, want.RequestURI)
	}
	dropped := map[string]bool{"Host": true}
	for _, name := range hopByHop {
		dropped[name] = true
	}
	for _, v := range want.Header["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			dropped[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	compareHeaders(t, got.Header, want.Header, dropped)
}

// compareHeaders holds got against what net/http read, but for the fields it rewrites or that were dropped.
func compareHeaders(t *testing.T, got, want http.Header, dropped map[string]bool) {
	t.Helper()
	for name, values := range want {
		if !dropped[name] && name != "Cache-Control" && !reflect.DeepEqual(got[name], values) { // net/http adds it for Pragma
			t.Errorf("%s is %q, want %q", name, got[name], values)
		}
	}
	for name := range got {
		if dropped[name] {
			t.Errorf("%s was not dropped", name)
		}
	}
}

// Whatever a server answers, the dial ends within its bounds and understands it as net/http does. ACCEPT in the input
// stands for the right accept value.
func FuzzDialResponse(f *testing.F) {
	const right = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n"
	for _, answer := range []string{
		right + "\r\n",
		right + "\r\n\x81\x02hi",
		right + "Sec-WebSocket-Protocol: a\r\nX: y\r\nx: z\r\n\r\n",
		right + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
		"HTTP/1.1 103 \r\nLink: x\r\n\r\n" + right + "\r\n",
		"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
		"HTTP/1.0 401 No\r\nContent-Length: 2\r\n\r\nabc",
		"HTTP/1.1 101\nUpgrade: websocket\n\n",
	} {
		f.Add([]byte(answer))
	}
	u := &url.URL{Scheme: "ws", Host: "x", Path: "/"}
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := &server{t: t, answer: data}
		up := &Upstream{Conn: conn}
		err := requestUpgrade(up, u, nil, []string{"a", "b"})
		br := bufio.NewReaderSize(bytes.NewReader(conn.answer), MaxHeadBytes)
		want, wantErr := finalResponse(br)
		var status *StatusError
		switch {
		case errors.As(err, &status):
			compareStatus(t, status, want, wantErr)
		case err == nil:
			if wantErr != nil {
				// net/http reads the framing of a body even where there is none.
				if strings.Contains(wantErr.Error(), "transfer encoding") || strings.Contains(wantErr.Error(), "Content-Length") ||
					strings.Contains(wantErr.Error(), "trailer") {
					return
				}
				t.Fatalf("accepted what net/http refuses: %v", wantErr)
			}
			if want.StatusCode != 101 || up.Protocol != want.Header.Get("Sec-WebSocket-Protocol") {
				t.Fatalf("status %d, protocol %q", want.StatusCode, up.Protocol)
			}
			for _, name := range []string{"Connection", "Transfer-Encoding", "Trailer", "Content-Length"} {
				delete(up.Header, name)
				delete(want.Header, name)
			}
			compareHeaders(t, up.Header, want.Header, nil)
			behind, _ := io.ReadAll(br)
			unread, _ := io.ReadAll(conn.Reader)
			if !bytes.Equal(append(up.Early, unread...), behind) {
				t.Errorf("behind the head: %q and %q, want %q", up.Early, unread, behind)
			}
		case !errors.Is(err, ErrBadHandshake) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("got %v", err)
		}
		if len(up.Early) > MaxHeadBytes {
			t.Errorf("%d bytes held", len(up.Early))
		}
	})
}

// server is the other end of a dial in memory: it answers once the whole request was written.
type server struct {
	memConn
	t      *testing.T
	answer []byte
}

func (s *server) Write(p []byte) (int, error) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p)))
	if err != nil {
		s.t.Fatalf("request %q: %v", p, err)
	}
	_, accept, _ := strings.Cut(wiretest.Switching(req), "Sec-WebSocket-Accept: ")
	s.answer = bytes.ReplaceAll(s.answer, []byte("ACCEPT"), []byte(strings.TrimSpace(accept)))
	s.Reader = bytes.NewReader(s.answer)
	return len(p), nil
}

// finalResponse skips interim answers as Dial does.
func finalResponse(br *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode == 101 || resp.StatusCode >= 200 {
			return resp, err
		}
	}
}

func compareStatus(t *testing.T, got *StatusError, want *http.Response, wantErr error) {
	t.Helper()
	if wantErr != nil {
		if len(got.Body) > 0 {
			t.Errorf("a body where net/http fails: %v", wantErr)
		}
		return
	}
	body, _ := io.ReadAll(io.LimitReader(want.Body, maxErrorBody))
	if got.Status != want.StatusCode || !bytes.Equal(got.Body, body) {
		t.Errorf("status %d %q, want %d %q", got.Status, got.Body, want.StatusCode, body)
	}
	if got.RetryAfter < 0 || got.RetryAfter > maxRetryAfter {
		t.Errorf("Retry-After %v", got.RetryAfter)
	}
}
