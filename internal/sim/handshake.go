package sim

import (
	"context"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

const keyProtocol = "openai-insecure-api-key."

// refusal is an answer to an upgrade request other than 101.
type refusal struct {
	status        int
	code, message string
	header        http.Header
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler) // net/http's way to end the connection without an answer
	}
	defer s.wg.Done()
	switch {
	case path.Base(r.URL.Path) == "realtime":
		s.dialled(w, r)
	case r.URL.Path == "/sim/stats" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Stats()) // the reader has left
	default:
		refusal{status: http.StatusNotFound, code: "not_found", message: "no such endpoint: " + r.Method + " " + r.URL.Path}.write(w)
	}
}

// dialled answers one upgrade request.
func (s *Server) dialled(w http.ResponseWriter, r *http.Request) {
	s.counters.dials.Add(1)
	crowded, registered := s.beginHandshake(), false
	defer func() {
		if !registered {
			s.mu.Lock()
			s.census.handshaking--
			s.mu.Unlock()
		}
	}()
	rule := s.strike()
	if !pause(r.Context(), s.cfg.DialDelay) {
		panic(http.ErrAbortHandler) // the peer has left, or the server closes
	}
	if rule != nil && !rule.upgraded {
		s.failHandshake(w, rule)
		return
	}
	no := checkUpgrade(r)
	if no == nil {
		no = s.admit(r, crowded)
	}
	if no != nil {
		s.counters.refused.Add(1)
		no.write(w)
		return
	}
	if c := s.upgrade(w, r); c != nil {
		registered = true
		go c.run(rule)
	}
}

// beginHandshake counts a dial and reports whether it is one too many.
func (s *Server) beginHandshake() (crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.census.dialled()
	return s.cfg.MaxSessions > 0 && s.census.handshaking+s.census.open > int64(s.cfg.MaxSessions)
}

// strike finds the failure rule that acts on this dial.
func (s *Server) strike() *Rule {
	for _, a := range s.fail {
		if a.strike() {
			s.counters.failed.Add(1)
			return &a.Rule
		}
	}
	return nil
}

// failHandshake acts out a rule in place of the 101.
func (s *Server) failHandshake(w http.ResponseWriter, rule *Rule) {
	if rule.act == actStatus {
		s.counters.refused.Add(1)
		no := refusal{status: rule.status, code: statusCode(rule.status), message: "a failure rule of the scripted upstream", header: http.Header{}}
		if rule.retryAfter != "" {
			no.header.Set("Retry-After", rule.retryAfter)
		}
		no.write(w)
		return
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil || !s.hold(nc) {
		return
	}
	defer s.release(nc)
	switch rule.act {
	case actReset:
		reset(nc)
	case actFIN:
		halfClose(nc)
		drain(nc, time.Now().Add(closeTimeout))
	case actHang:
		_, _ = io.Copy(io.Discard, nc) // until the peer gives up or Close closes it
	}
	_ = nc.Close()
}

// checkUpgrade holds the request against RFC 6455 section 4.2.1.
func checkUpgrade(r *http.Request) *refusal {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Method != http.MethodGet:
		return &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: "a WebSocket upgrade is a GET"}
	case !r.ProtoAtLeast(1, 1) || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return &refusal{status: http.StatusUpgradeRequired, code: "upgrade_required", message: "this endpoint speaks WebSocket only",
			header: http.Header{"Upgrade": {"websocket"}}}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return &refusal{status: http.StatusUpgradeRequired, code: "upgrade_required", message: "the WebSocket version must be 13",
			header: http.Header{"Sec-Websocket-Version": {"13"}}}
	case err != nil || len(key) != 16:
		return &refusal{status: http.StatusBadRequest, code: "invalid_value", message: "Sec-WebSocket-Key is not 16 bytes in base64"}
	}
	return nil
}

// admit decides whether a well-formed upgrade gets a session.
func (s *Server) admit(r *http.Request, crowded bool) *refusal {
	q := r.URL.Query()
	switch {
	case s.cfg.RequireKey != "" && subtle.ConstantTimeCompare([]byte(credential(r.Header)), []byte(s.cfg.RequireKey)) != 1:
		return &refusal{status: http.StatusUnauthorized, code: "invalid_api_key", message: "the API key is missing or wrong"}
	case crowded:
		return &refusal{status: http.StatusTooManyRequests, code: "rate_limit_exceeded",
			message: fmt.Sprintf("all of the %d sessions are in use", s.cfg.MaxSessions)}
	case modelOf(q) == "" && q.Get("call_id") == "" && q.Get("intent") != "transcription":
		return &refusal{status: http.StatusBadRequest, code: "missing_required_parameter", message: "the query has no model"}
	}
	return nil
}

// upgrade makes the session known and sends the 101; nil when the peer or the server has gone. A client that has read the
// 101 finds its session counted.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *conn {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	c, q := newConn(s, nc, buffered(rw)), r.URL.Query()
	c.model, c.transcription = modelOf(q), q.Get("intent") == "transcription"
	c.credential, c.beta, c.subprotocol = Fingerprint(credential(r.Header)), r.Header.Get("OpenAI-Beta"), chooseProtocol(r.Header)

	c.writing.Lock() // a Close frame may not overtake the 101
	defer c.writing.Unlock()
	if !s.register(c) {
		_ = nc.Close()
		return nil
	}
	s.counters.accepted.Add(1)
	s.wg.Add(1) // never from zero: the request handler is still counted
	_ = nc.SetWriteDeadline(time.Now().Add(headTimeout))
	if _, err := nc.Write(accept(r.Header.Get("Sec-WebSocket-Key"), c.subprotocol)); err != nil {
		c.closing = true
		_ = nc.Close() // the session ends at its first read
	}
	_ = nc.SetWriteDeadline(time.Time{})
	return c
}

func modelOf(q url.Values) string {
	if m := q.Get("model"); m != "" {
		return m
	}
	return q.Get("deployment")
}

// credential is the key a client presents in any of the dialect's ways.
func credential(h http.Header) string {
	if scheme, key, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	if key := h.Get("Api-Key"); key != "" {
		return key
	}
	for p := range tokens(h, "Sec-WebSocket-Protocol") {
		if key, ok := strings.CutPrefix(p, keyProtocol); ok {
			return key
		}
	}
	return ""
}

// chooseProtocol prefers realtime, and never gives a key back.
func chooseProtocol(h http.Header) (chosen string) {
	for p := range tokens(h, "Sec-WebSocket-Protocol") {
		if p == "realtime" {
			return p
		}
		if chosen == "" && !strings.HasPrefix(p, keyProtocol) {
			chosen = p
		}
	}
	return chosen
}

// tokens yields the elements of a list header over all its lines.
func tokens(h http.Header, name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range h.Values(name) {
			for t := range strings.SplitSeq(line, ",") {
				if t = strings.TrimSpace(t); t != "" && !yield(t) {
					return
				}
			}
		}
	}
}

func hasToken(h http.Header, name, token string) bool {
	for t := range tokens(h, name) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}

// accept renders the 101 head, RFC 6455 section 4.2.2.
func accept(key, protocol string) []byte {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if protocol != "" {
		head += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	return []byte(head + "\r\n")
}

func (n refusal) write(w http.ResponseWriter) {
	kind := "invalid_request_error"
	if n.status >= 500 {
		kind = "server_error"
	}
	body, _ := json.Marshal(map[string]any{"error": struct { // strings alone always marshal
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}{n.message, kind, nil, n.code}})
	h := w.Header()
	for k, v := range n.header {
		h[k] = v
	}
	h.Set("Connection", "close")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(n.status)
	_, _ = w.Write(body) // a status without a body, or a peer that has left
}

// statusCode is the error code that the provider's API gives with a status.
func statusCode(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "invalid_api_key"
	case status == http.StatusNotFound:
		return "model_not_found"
	case status == http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request"
}

// pause waits; it is false when ctx was done first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tcpOf finds the TCP connection under TLS.
func tcpOf(nc net.Conn) *net.TCPConn {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	tcp, _ := nc.(*net.TCPConn)
	return tcp
}

// reset makes the close of nc a TCP reset.
func reset(nc net.Conn) {
	if tcp := tcpOf(nc); tcp != nil {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	}
}

// halfClose sends a bare FIN, under TLS too: no close_notify.
func halfClose(nc net.Conn) {
	if tcp := tcpOf(nc); tcp != nil {
		_ = tcp.CloseWrite()
	}
}

// drain reads what the peer still sends, so that closing with bytes unread does not turn into a reset that overtakes
// what was sent last.
func drain(nc net.Conn, deadline time.Time) {
	_ = nc.SetReadDeadline(deadline)
	_, _ = io.Copy(io.Discard, nc)
}
