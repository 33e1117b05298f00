package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gobwas/ws"
)

// Bounds of a handshake, of either direction.
const (
	// MaxHeadBytes bounds a request or response head, its final empty line included.
	MaxHeadBytes = 16 << 10
	// MaxHeadLines bounds the lines of a head: the first line and the header lines, not the final empty line.
	MaxHeadLines = 64
	// HandshakeTimeout is the default for the time a client may take to send its whole request head.
	HandshakeTimeout = 10 * time.Second

	// maxElements bounds what costs much more memory than its bytes on the wire: query parameters and subprotocols.
	maxElements = 64
)

// Request is a validated WebSocket upgrade request of a client, or the plain request that Plain lets through. Its strings
// share the memory of the whole head: clone what is to outlive the handshake.
type Request struct {
	// Plain is set when this is no upgrade; Body is its whole body, nil for an upgrade.
	Plain bool
	Body  []byte
	// Target is the request target as sent. It may hold a credential.
	Target string
	// Path is the target's path, percent-decoded once and with runs of slashes collapsed. Dot segments stay.
	Path string
	// Query is the target's decoded query. It may hold a credential.
	Query url.Values
	// Host is the authority the client asked for: the target's, if it has one, else the Host header's.
	Host string
	// Header has canonical names, no Host and no hop-by-hop header (RFC 9110 section 7.6.1): neither the known ones
	// nor those named by any Connection line.
	Header http.Header
	// Subprotocols are those offered, in order. One of them may hold a credential.
	Subprotocols []string

	switching []byte // the 101 head without its final empty line
}

// RequestError is a request that has an HTTP answer: WriteError(conn, e.Status, e.Code, e.Message, nil).
type RequestError struct {
	Status  int    // 400, 405, 408, 411, 413, 426, 431 or 505
	Code    string // machine-readable, snake case
	Message string // one line for people; holds nothing the client sent
}

func (e *RequestError) Error() string { return e.Message }

func malformed(message string) *RequestError {
	return &RequestError{http.StatusBadRequest, "malformed_request", message}
}

// ReadRequest reads and validates one upgrade request from conn. timeout bounds the whole head, not each read; zero or
// less is HandshakeTimeout. rest has the bytes that came behind the head, in order, and is the caller's.
//
// The error is a *RequestError for whatever has an HTTP answer, else the connection's: io.EOF or
// os.ErrDeadlineExceeded if the client sent nothing at all. conn stays the caller's; its read deadline is cleared on
// success only.
func ReadRequest(conn net.Conn, timeout time.Duration) (req *Request, rest []byte, err error) {
	return ReadRequestOr(conn, timeout, Plain{})
}

// ReadRequestOr is ReadRequest that also takes the request that plain describes, body included; timeout bounds both.
func ReadRequestOr(conn net.Conn, timeout time.Duration, plain Plain) (req *Request, rest []byte, err error) {
	if timeout <= 0 {
		timeout = HandshakeTimeout
	}
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, nil, err
	}
	var h headReader
	head, err := h.read(conn)
	if err != nil {
		return nil, nil, answerTo(err, len(h.buf) > 0)
	}
	if req, err = parseRequest(string(head), plain); err != nil {
		return nil, nil, err
	}
	rest = bytes.Clone(h.rest())
	if req.Plain {
		if rest, err = req.readBody(conn, rest); err != nil {
			return nil, nil, answerTo(err, true)
		}
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	return req, rest, nil
}

// answerTo finds the HTTP answer to a failed read, if there is one.
func answerTo(err error, begun bool) error {
	broken, ok := errors.AsType[*headError](err)
	switch {
	case ok && broken.tooLarge:
		return &RequestError{http.StatusRequestHeaderFieldsTooLarge, "head_too_large", "request refused: " + broken.text}
	case ok:
		return malformed("malformed request: " + broken.text)
	case begun && errors.Is(err, os.ErrDeadlineExceeded):
		return &RequestError{http.StatusRequestTimeout, "request_timeout", "the request did not arrive in time"}
	}
	return err
}

// parseRequest validates a whole head.
func parseRequest(head string, plain Plain) (*Request, error) {
	line, header, err := parseHead(head)
	if err != nil {
		return nil, answerTo(err, true)
	}
	method, target, version, err := parseRequestLine(line)
	if err != nil {
		return nil, err
	}
	req := &Request{Target: target, Header: header}
	if plain.matches(method, target, version) {
		err = req.setPlain(plain.MaxBody)
	} else {
		err = req.setUpgrade(method, version)
	}
	if err != nil {
		return nil, err
	}
	if req.Host == "" { // RFC 9112 section 3.2.2: an absolute target's authority wins
		req.Host = header.Get("Host")
	}
	delete(header, "Host")
	removeHopByHop(header)
	return req, nil
}

func (r *Request) setUpgrade(method, version string) (err error) {
	if r.switching, err = upgrade(method, version, r.Header); err != nil {
		return err
	}
	if err := r.setTarget(); err != nil {
		return err
	}
	if err := checkFields(r.Header); err != nil {
		return err
	}
	return r.setSubprotocols()
}

// parseRequestLine is RFC 9112 section 3, with single spaces.
func parseRequestLine(line string) (method, target, version string, err error) {
	method, line, _ = strings.Cut(line, " ")
	target, version, _ = strings.Cut(line, " ")
	const digits = "0123456789"
	ok := len(version) == len("HTTP/1.1") && strings.HasPrefix(version, "HTTP/") && version[6] == '.' &&
		strings.IndexByte(digits, version[5]) >= 0 && strings.IndexByte(digits, version[7]) >= 0
	if !ok || !isToken(method) || !isVisible(target) {
		return "", "", "", malformed("malformed request line")
	}
	return method, target, version, nil
}

// isVisible reports whether s is visible ASCII, at least one byte of it.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}

// rejections maps the verdicts of ws.Upgrader to answers.
var rejections = map[error]*RequestError{
	ws.ErrHandshakeBadProtocol: {http.StatusHTTPVersionNotSupported, "unsupported_http_version",
		"a WebSocket upgrade needs HTTP/1.1"},
	ws.ErrHandshakeBadMethod: {http.StatusMethodNotAllowed, "method_not_allowed",
		"a WebSocket upgrade must be a GET request"},
	ws.ErrHandshakeBadUpgrade: {http.StatusUpgradeRequired, "upgrade_required",
		"this endpoint speaks WebSocket only: send Upgrade: websocket"},
	ws.ErrHandshakeBadConnection: malformed("the Connection header does not list Upgrade"),
	ws.ErrHandshakeBadSecVersion: malformed("the Sec-WebSocket-Version header is missing or empty"),
	ws.ErrHandshakeUpgradeRequired: {http.StatusUpgradeRequired, "unsupported_websocket_version",
		"the only WebSocket version supported is 13"},
	ws.ErrHandshakeBadSecKey: malformed("the Sec-WebSocket-Key header is missing or is not 16 bytes in base64"),
}

// upgrade lets ws.Upgrader judge the request and returns the head of the 101 it renders. The upgrader sees a request
// in normal form, since it takes each header line for the whole header: the Connection and Upgrade lists are searched
// here, and what must stand once is checked by checkFields.
func upgrade(method, version string, header http.Header) ([]byte, error) {
	var in, out bytes.Buffer
	in.WriteString(method + " / " + version + "\r\nHost: x\r\n")
	in.WriteString("Upgrade: " + only(header, "Upgrade", "websocket") + "\r\n")
	in.WriteString("Connection: " + only(header, "Connection", "Upgrade") + "\r\n")
	for _, name := range []string{"Sec-Websocket-Version", "Sec-Websocket-Key"} {
		if v := header.Get(name); v != "" {
			in.WriteString(name + ": " + v + "\r\n")
		}
	}
	in.WriteString("\r\n")
	_, err := ws.Upgrader{}.Upgrade(struct {
		io.Reader
		io.Writer
	}{&in, &out})
	if err == nil {
		return bytes.TrimSuffix(out.Bytes(), []byte("\r\n")), nil
	}
	if known := rejections[err]; known != nil {
		return nil, known
	}
	return nil, malformed("malformed upgrade request")
}

// only is the token if the list header has it, else nothing.
func only(header http.Header, name, token string) string {
	if hasToken(header[name], token) {
		return token
	}
	return ""
}

// checkFields refuses what would let two readers of the head understand two different requests, and a body, which
// an upgrade cannot have here: the bytes behind the head are frames.
func checkFields(header http.Header) error {
	for _, name := range []string{"Host", "Sec-Websocket-Key", "Sec-Websocket-Version"} {
		if len(header[name]) > 1 {
			return malformed("the " + name + " header appears more than once")
		}
	}
	if !isAuthority(header.Get("Host")) {
		return malformed("the Host header is missing or malformed")
	}
	if key, err := base64.StdEncoding.DecodeString(header.Get("Sec-Websocket-Key")); err != nil || len(key) != 16 {
		return rejections[ws.ErrHandshakeBadSecKey] // the upgrader counts characters only
	}
	if _, ok := header["Transfer-Encoding"]; ok {
		return malformed("an upgrade request must not have a Transfer-Encoding header")
	}
	for i, v := range header["Content-Length"] {
		if i > 0 || v != "0" {
			return malformed("an upgrade request must not have a body")
		}
	}
	return nil
}

// isAuthority reports whether s is a host in ASCII with an optional port, and nothing else.
func isAuthority(s string) bool {
	if !isVisible(s) {
		return false
	}
	u, err := url.Parse("http://" + s)
	return err == nil && u.Host == s && u.Hostname() != "" // so no user, path, query, fragment or escape
}

func (r *Request) setSubprotocols() error {
	for t := range tokens(r.Header["Sec-Websocket-Protocol"]) {
		if len(r.Subprotocols) == maxElements {
			return malformed("more than 64 subprotocols")
		}
		if !isToken(t) {
			return malformed("a subprotocol is not a token")
		}
		r.Subprotocols = append(r.Subprotocols, t)
	}
	return nil
}

// setTarget fills Path, Query and Host from Target by hand: url.Parse takes //host/path for another host, and a
// router that cleans paths answers with a redirect that no WebSocket client follows.
func (r *Request) setTarget() error {
	rest := r.Target
	if rest[0] != '/' { // the absolute form of RFC 9112 section 3.2.2
		scheme, after, ok := strings.Cut(rest, "://")
		switch strings.ToLower(scheme) {
		case "http", "https", "ws", "wss":
		default:
			ok = false
		}
		end := strings.IndexAny(after, "/?#")
		if end < 0 {
			end = len(after)
		}
		r.Host, rest = after[:end], after[end:]
		if !ok || !isAuthority(r.Host) {
			return malformed("malformed request target")
		}
	}
	rawPath, rawQuery, _ := strings.Cut(rest, "?")
	path, err := url.PathUnescape(rawPath)
	if err != nil || !isValue(path) || strings.Contains(rest, "#") {
		return malformed("malformed path in the request target")
	}
	if strings.Count(rawQuery, "&") >= maxElements {
		return malformed("more than 64 query parameters in the request target")
	}
	if r.Query, err = url.ParseQuery(rawQuery); err != nil {
		return malformed("malformed query in the request target")
	}
	r.Path = collapse("/" + path)
	return nil
}

// collapse makes each run of slashes one slash.
func collapse(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// hopByHop are the fields that end here even if Connection does not name them, RFC 9110 section 7.6.1.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Transfer-Encoding", "Upgrade", "Trailer",
	"Proxy-Authenticate", "Proxy-Authorization",
}

func removeHopByHop(header http.Header) {
	for t := range tokens(header["Connection"]) {
		delete(header, textproto.CanonicalMIMEHeaderKey(t))
	}
	for _, name := range hopByHop {
		delete(header, name)
	}
}
