package wire

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Bounds of an HTTP answer.
const (
	answerTimeout = 2 * time.Second
	drainTimeout  = 300 * time.Millisecond
	drainBytes    = 256 << 10
)

// Accept renders the 101 head of RFC 6455 section 4.2.2, and does not write it. protocol must be one of Subprotocols or
// "" for none; any other is left out, as is a field of extra that is no valid header.
func (r *Request) Accept(protocol string, extra http.Header) []byte {
	head := append(make([]byte, 0, len(r.switching)+128), r.switching...)
	if slices.Contains(r.Subprotocols, protocol) {
		head = append(head, "Sec-WebSocket-Protocol: "+protocol+"\r\n"...)
	}
	return append(appendHeader(head, extra), "\r\n"...)
}

// appendHeader renders the valid fields in the order of their names.
func appendHeader(dst []byte, header http.Header) []byte {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if isToken(name) && isValue(value) {
				dst = append(dst, name+": "+value+"\r\n"...)
			}
		}
	}
	return dst
}

// WriteError answers a request with a status of 400 or more and a body of the shape
// {"error":{"message","type","code","param":null}}, says that the connection closes, ends the sending side and reads
// for a moment, so that the peer gets the answer and not a reset: one answer, whatever else was sent. 405 and 426 get
// the headers they require. A field of extra that is no valid header is left out.
//
// It takes at most 2.3 s. The error is that of the write; conn stays the caller's, to close.
func WriteError(conn net.Conn, status int, code, message string, extra http.Header) error {
	body, err := errorBody(status, code, message)
	if err != nil {
		return err
	}
	return WriteJSON(conn, status, body, extra)
}

// WriteJSON answers a request with any final status and body, and ends the connection as WriteError does.
func WriteJSON(conn net.Conn, status int, body []byte, extra http.Header) error {
	head := []byte("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n" +
		"Content-Type: application/json\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		"Connection: close\r\n" + required(status))
	head = append(appendHeader(head, extra), "\r\n"...)
	if err := conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(append(head, body...)); err != nil {
		return err
	}
	drain(conn)
	return nil
}

// required are the header lines that a status must come with.
func required(status int) string {
	switch status {
	case http.StatusMethodNotAllowed: // RFC 9110 section 15.5.6
		return "Allow: GET\r\n"
	case http.StatusUpgradeRequired: // RFC 9110 sections 15.5.22 and 7.8, RFC 6455 section 4.4
		return "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
	}
	return ""
}

func errorBody(status int, code, message string) ([]byte, error) {
	type apiError struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    string  `json:"code"`
		Param   *string `json:"param"`
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
	}
	return json.Marshal(map[string]apiError{"error": {Message: message, Type: kind, Code: code}})
}

// drain sends a FIN and reads on for a moment: to close a socket with unread bytes is a reset, which can overtake the
// answer (RFC 9112 section 9.6).
func drain(conn net.Conn) {
	c, ok := conn.(interface{ CloseWrite() error })
	if !ok || c.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, conn, drainBytes)
	}
}
