package wiretest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Client is a raw client socket. It is closed at the end of the test.
type Client struct{ *Peer }

// Dial connects to a TCP address, or to a Unix socket when addr begins with a slash.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := net.DialTimeout(network, addr, 5*time.Second)
	if err != nil {
		t.Fatalf("wiretest: %v", err)
	}
	return NewClient(t, conn)
}

// NewClient makes conn a client.
func NewClient(t testing.TB, conn net.Conn) *Client {
	c := &Client{newPeer(t, conn, true, t.Fatalf)}
	t.Cleanup(c.Close)
	return c
}

// Connect dials addr, sends HS with more header lines, expects 101 and returns the open client.
func Connect(t testing.TB, addr string, lines ...string) *Client {
	t.Helper()
	c := Dial(t, addr)
	c.SendString(HSWith("", lines...))
	c.Expect101()
	return c
}

// Expect101 reads a 101 that answers HS and returns its head. What stands behind it is left for the next read.
func (c *Client) Expect101() http.Header {
	c.t.Helper()
	resp := c.readResponse()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(resp.Body)
		c.fatal("wiretest: got %s %s, want 101", resp.Status, body)
	}
	if got := resp.Header.Get("Sec-WebSocket-Accept"); got != Accept {
		c.fatal("wiretest: Sec-WebSocket-Accept is %q, want %q", got, Accept)
	}
	return resp.Header
}

// ExpectStatus reads one whole response, its body included.
func (c *Client) ExpectStatus(status int) (header http.Header, body string) {
	c.t.Helper()
	resp := c.readResponse()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.fatal("wiretest: body of %s: %v", resp.Status, err)
	}
	if resp.StatusCode != status {
		c.fatal("wiretest: got %s %s, want %d", resp.Status, b, status)
	}
	// net/http takes the header out of the map; the cases ask for it.
	if resp.Close && resp.Header.Get("Connection") == "" {
		resp.Header.Set("Connection", "close")
	}
	return resp.Header, string(b)
}

// readResponse reads the head byte by byte off the buffer, so that a frame behind it stays there.
func (c *Client) readResponse() *http.Response {
	c.t.Helper()
	head, err := c.readHead()
	if err != nil {
		c.fatal("wiretest: response head %q: %v", head, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader([]byte(head)), onlyBody{c})), nil)
	if err != nil {
		c.fatal("wiretest: response head %q: %v", head, err)
	}
	return resp
}

// onlyBody hands out what follows a head, only when asked.
type onlyBody struct{ c *Client }

func (b onlyBody) Read(p []byte) (int, error) { return b.c.br.Read(p) }
