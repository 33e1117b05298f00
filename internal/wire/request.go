package wire

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Bounds of a handshake, of either direction.
const (
	// MaxHeadBytes bounds a request or response head, its final empty line included.
	MaxHeadBytes = 16 << 10
	// MaxHeadLines bounds the lines of a head: the first line and the header lines, not the final empty line.
	MaxHeadLines = 64
	// HandshakeTimeout is the default for the time a client may take to send its whole request head.
	HandshakeTimeout = 10 * time.Second
)

// Request is a validated WebSocket upgrade request of a client.
type Request struct {
	// Target is the request target as sent. It may hold a credential.
	Target string
	// Path is the target's path, percent-decoded once and with runs of slashes collapsed.
	Path string
	// Query is the target's decoded query. It may hold a credential.
	Query url.Values
	// Host is the authority the client asked for.
	Host string
	// Header has canonical names and no hop-by-hop header (RFC 9110 section 7.6.1): neither the known ones nor those
	// named by any Connection line.
	Header http.Header
	// Subprotocols are those offered, in order. One of them may hold a credential.
	Subprotocols []string

	switching []byte
}

// RequestError is a request that has an HTTP answer: WriteError(conn, e.Status, e.Code, e.Message, nil).
type RequestError struct {
	Status  int    // 400, 405, 408, 426, 431 or 505
	Code    string // machine-readable, snake case
	Message string // one line for people; holds nothing the client sent
}

func (e *RequestError) Error() string { return e.Message }

// ReadRequest reads one request head from conn.
func ReadRequest(conn net.Conn, timeout time.Duration) (req *Request, rest []byte, err error) {
	return nil, nil, errors.New("not yet")
}

// Accept renders the 101 head.
func (r *Request) Accept(protocol string, extra http.Header) []byte { return nil }

// WriteError answers a request.
func WriteError(conn net.Conn, status int, code, message string, extra http.Header) error { return nil }
