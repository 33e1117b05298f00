package wiretest

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Proxy is an HTTP proxy on loopback that knows CONNECT, and one upstream whatever host it is asked for. Its goroutines
// have ended when the test has.
type Proxy struct {
	ln      net.Listener
	to      string
	answer  string
	mu      sync.Mutex
	asked   []string
	open    map[net.Conn]bool
	serving sync.WaitGroup
}

// NewProxy starts a proxy that connects everybody to the address to. A non-empty answer is what it sends to every request;
// then it connects nobody, and waits for the client to hang up.
func NewProxy(t testing.TB, to, answer string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("wiretest: %v", err)
	}
	p := &Proxy{ln: ln, to: to, answer: answer, open: map[net.Conn]bool{}}
	p.serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(p.end)
	return p
}

// URL is the proxy's address; its user is the caller's to set.
func (p *Proxy) URL() *url.URL { return &url.URL{Scheme: "http", Host: p.ln.Addr().String()} }

// Asked are the request heads it got.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func (p *Proxy) end() {
	_ = p.ln.Close()
	p.mu.Lock()
	for conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
	p.mu.Unlock()
	p.serving.Wait()
}

// keep has conn closed at the end of the test, if that has not come.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		_ = conn.Close()
		return false
	}
	p.open[conn] = true
	return true
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.keep(client) {
		return
	}
	in := bufio.NewReader(client)
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		head.WriteString(line)
	}
	p.mu.Lock()
	p.asked = append(p.asked, head.String())
	p.mu.Unlock()
	if p.answer != "" {
		_, _ = io.WriteString(client, p.answer)
		_, _ = io.Copy(io.Discard, in)
		return
	}
	upstream, err := net.Dial("tcp", p.to)
	if err != nil {
		_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer upstream.Close()
	if !p.keep(upstream) {
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	p.serving.Go(func() { copyHalf(upstream, in) })
	copyHalf(client, upstream)
	_, _ = io.Copy(io.Discard, upstream)
}

// copyHalf passes on all bytes and then the end.
func copyHalf(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}
