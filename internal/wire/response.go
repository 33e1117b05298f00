package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gobwas/ws"
)

const (
	maxErrorBody  = 4 << 10
	errorBodyWait = time.Second    // after the head of an answer other than 101
	maxRetryAfter = 24 * time.Hour // more would overflow
)

// StatusError is an HTTP answer other than 101.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // from now; 0 if absent, past or rubbish; at most 24 h
	Body       []byte        // the first 4 KiB of what came within a second; may hold a secret
}

func (e *StatusError) Error() string {
	return strings.TrimRight(fmt.Sprintf("the upgrade was answered with status %d %s", e.Status, http.StatusText(e.Status)), " ")
}

// requestUpgrade sends the request over up.Conn, reads the answer and fills up.
func requestUpgrade(up *Upstream, u *url.URL, header http.Header, protocols []string) error {
	x := &exchange{conn: up.Conn}
	fields := appendHeader(nil, header)
	dialer := ws.Dialer{Protocols: protocols, Header: ws.HandshakeHeaderBytes(fields)}
	_, hs, err := dialer.Upgrade(x, u) // its reader is empty: it saw the head only
	switch {
	case x.err != nil:
		return x.err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadHandshake, err)
	}
	up.Early, up.Header, up.Protocol = x.early, x.header, hs.Protocol
	return nil
}

// exchange stands between ws.Dialer and the connection. It sends the request in one write, reads the head of the
// answer within bounds, checks what the dialer does not and hands it the head in normal form, and nothing else.
type exchange struct {
	conn    net.Conn
	request bytes.Buffer
	answer  *bytes.Reader // nil until read
	header  http.Header
	early   []byte
	err     error // the one that counts; the dialer's is a consequence
}

func (x *exchange) Write(p []byte) (int, error) { return x.request.Write(p) }

func (x *exchange) Read(p []byte) (int, error) {
	if x.err == nil && x.answer == nil {
		x.err = x.run()
	}
	if x.err != nil {
		return 0, x.err
	}
	return x.answer.Read(p)
}

func (x *exchange) run() error {
	if _, err := x.conn.Write(x.request.Bytes()); err != nil {
		return err
	}
	var h headReader
	for {
		head, err := h.read(x.conn)
		if err != nil {
			return responseError(err)
		}
		status, header, err := parseResponse(string(head))
		switch {
		case err != nil:
			return err
		case status == http.StatusSwitchingProtocols:
			return x.switched(header, h.rest())
		case status >= 200:
			return refused(status, header, bytes.NewReader(h.buf[h.start:]), x.conn)
		}
		h.next() // an interim answer, RFC 9110 section 15.2
	}
}

// responseError tells a broken answer from a broken connection.
func responseError(err error) error {
	if broken, ok := errors.AsType[*headError](err); ok {
		return fmt.Errorf("%w: %w", ErrBadHandshake, broken)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the server closed before its answer was complete: %w", err)
	}
	return err
}

// parseResponse parses a whole head.
func parseResponse(head string) (status int, header http.Header, err error) {
	line, header, err := parseHead(head)
	if err != nil {
		return 0, nil, responseError(err)
	}
	// RFC 9112 section 4; a server may leave out the last space with the reason.
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err = strconv.Atoi(code)
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0", len(code) != 3, err != nil, status < 100:
		return 0, nil, fmt.Errorf("%w: malformed status line", ErrBadHandshake)
	case status == http.StatusSwitchingProtocols && version != "HTTP/1.1":
		return 0, nil, fmt.Errorf("%w: a 101 in HTTP/1.0", ErrBadHandshake)
	}
	return status, header, nil
}

// switched renders the 101 for the dialer, which takes each header line for the whole header. What it could not see
// in normal form is checked here: headers that must stand once, and an extension, which nobody offered.
func (x *exchange) switched(header http.Header, rest []byte) error {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	for _, name := range []string{"Upgrade", "Sec-Websocket-Accept", "Sec-Websocket-Protocol"} {
		if len(header[name]) > 1 {
			return fmt.Errorf("%w: the %s header appears more than once", ErrBadHandshake, name)
		}
		if v := header[name]; len(v) == 1 {
			b.WriteString(name + ": " + v[0] + "\r\n")
		}
	}
	if hasToken(header["Connection"], "Upgrade") {
		b.WriteString("Connection: Upgrade\r\n")
	}
	for range tokens(header["Sec-Websocket-Extensions"]) {
		return fmt.Errorf("%w: an extension was accepted that was not offered", ErrBadHandshake)
	}
	b.WriteString("\r\n")
	x.answer, x.header = bytes.NewReader(b.Bytes()), header
	if len(rest) > 0 {
		x.early = bytes.Clone(rest)
	}
	return nil
}

// refused makes the StatusError. begun has what was read of the answer, from its status line on; conn the rest.
func refused(status int, header http.Header, begun io.Reader, conn net.Conn) error {
	e := &StatusError{Status: status, RetryAfter: retryAfter(header.Get("Retry-After"), time.Now())}
	// Only ever moves the deadline to the past, as the end of the dial's context does.
	timer := time.AfterFunc(errorBodyWait, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer timer.Stop()
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(begun, conn)), nil)
	if err != nil {
		return e // the framing of the body is broken; the status still counts
	}
	e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return e
}

// retryAfter reads the header of RFC 9110 section 10.2.3: seconds or an HTTP date.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	} else if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		d = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	return min(max(d, 0), maxRetryAfter)
}
