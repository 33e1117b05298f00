package wire

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Plain describes the one request that is served without an upgrade. The zero value describes none.
type Plain struct {
	Method string
	Path   string // as Request.Path
	// MaxBody bounds the body in bytes. There must be a Content-Length; no other framing is read.
	MaxBody int
}

// matches judges a request by its first line.
func (p Plain) matches(method, target, version string) bool {
	if p.Method == "" || method != p.Method || version != "HTTP/1.1" {
		return false
	}
	probe := Request{Target: target}
	return probe.setTarget() == nil && probe.Path == p.Path
}

var errLength = &RequestError{http.StatusLengthRequired, "length_required", "the request needs one Content-Length header"}

// setPlain validates the head of a plain request and makes room for its body.
func (r *Request) setPlain(maxBody int) error {
	r.Plain = true
	if err := r.setTarget(); err != nil {
		return err
	}
	if len(r.Header["Host"]) != 1 || !isAuthority(r.Header.Get("Host")) {
		return malformed("the Host header is missing, malformed or there more than once")
	}
	if _, ok := r.Header["Transfer-Encoding"]; ok { // two framings of one body are how requests are smuggled
		return malformed("a Transfer-Encoding is not taken here: send the body with a Content-Length")
	}
	lengths := r.Header["Content-Length"]
	if len(lengths) != 1 {
		return errLength
	}
	n, ok := digits(lengths[0])
	if !ok {
		return malformed("malformed Content-Length header")
	}
	if n > maxBody {
		return &RequestError{http.StatusRequestEntityTooLarge, "body_too_large", "the body is longer than " + strconv.Itoa(maxBody) + " bytes"}
	}
	r.Body = make([]byte, n)
	return nil
}

// digits reads a Content-Length: digits and nothing else (RFC 9110 section 8.6).
func digits(s string) (n int, ok bool) {
	if strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// readBody fills Body from early, which came with the head, and conn. It returns what is left of early.
func (r *Request) readBody(conn net.Conn, early []byte) (rest []byte, err error) {
	n := copy(r.Body, early)
	if n < len(r.Body) && slices.ContainsFunc(r.Header["Expect"], func(v string) bool { return strings.EqualFold(v, "100-continue") }) {
		if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil { // RFC 9110 section 10.1.1
			return nil, err
		}
	}
	_, err = io.ReadFull(conn, r.Body[n:])
	return early[n:], err
}
