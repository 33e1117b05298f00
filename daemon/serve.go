package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/pool"
)

// errClientGone ends the wait of a client that hung up before its 101: there is nobody to answer.
var errClientGone = errors.New("client hung up during the handshake")

// clientGone counts it among the refusals.
const clientGone = "client_gone"

// Response headers of a 101.
const (
	headerSession = "Rtd-Session-Id"
	headerPool    = "Rtd-Pool"     // hit, miss or bypass
	headerRequest = "X-Request-Id" // the client's own, given back
)

var results = map[pool.Result]stats.Result{pool.Hit: stats.Hit, pool.Miss: stats.Miss}

// realtimePaths are the request paths that open a session: SDKs are given a base with or without /v1.
var realtimePaths = map[string]bool{"/v1/realtime": true, "/realtime": true}

// serve takes one accepted connection as far as the relay, or answers why not. An answer can take a while and does not
// count as a handshake.
func (d *Daemon) serve(ctx context.Context, conn net.Conn) {
	defer d.contain(conn)
	answer := d.handshake(ctx, conn)
	if answer == nil {
		return
	}
	defer conn.Close()
	if d.limits.mayAnswer() {
		defer d.limits.answered()
		answer()
	}
}

// handshake returns how to answer a client that the relay did not take.
func (d *Daemon) handshake(ctx context.Context, conn net.Conn) (answer func()) {
	accepted, set := time.Now(), d.current()
	defer d.limits.leave()
	if err := d.limits.enter(conn, &set.cfg); err != nil {
		return func() { d.turnAway(ctx, set, conn, err) }
	}
	deadline := accepted.Add(orDefault(set.cfg.HandshakeTimeout, wire.HandshakeTimeout))
	raw := conn
	conn, err := d.encrypt(ctx, set, raw, deadline)
	if err != nil {
		return func() { d.refuseHandshake(raw, err) }
	}
	uncut := context.AfterFunc(ctx, func() { raw.Close() }) // a stop does not wait for a request that may never come
	req, early, err := wire.ReadRequestOr(conn, max(time.Until(deadline), time.Nanosecond), mintRequest)
	uncut()
	set = d.current() // a reload holds for every request that comes after it, however old its connection
	switch {
	case err != nil:
		return func() { d.refuseRequest(conn, err) }
	case req.Plain:
		return func() { d.serveMint(set, conn, req) }
	}
	s := &session{admission: d.receive(req), daemon: d, id: newSessionID(), accepted: accepted, client: remote(conn)}
	s.subject = subject(conn)
	d.beginTrace(s, req, set.tls != nil)
	if err := d.open(ctx, set, s, conn, req, early); err != nil {
		return func() { d.refuseSession(conn, s, asked(req), err) }
	}
	return nil
}

// contain ends one client whose handshake met a fault of ours; the others go on.
func (d *Daemon) contain(conn net.Conn) {
	if fault := recover(); fault != nil {
		d.log.Error("panic in a handshake", "panic", fault, "stack", string(debug.Stack()))
		conn.Close()
	}
}

// open admits and connects one request. The pool it waits for may go with a reload, also one that
// was in force before it came: then it is routed anew.
func (d *Daemon) open(ctx context.Context, set *settings, s *session, conn net.Conn, req *wire.Request, early []byte) error {
	opened := false
	defer func() {
		if !opened {
			s.release(false)
		}
	}()
	ask, err := d.admit(set, s, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, set.cfg.ReadyTimeout)
	defer cancel()
	wait := watchHangup(ctx, conn)
	defer wait.stop()
	adopt := func(s *session) error {
		wait.stop()
		return s.upstream.relay.Adopt(relay.Client{
			Conn:         conn,
			Early:        early,
			Response:     req.Accept(ask.Subprotocol, s.header(http.Header{headerPool: {s.result.String()}})),
			PingInterval: DefaultPingInterval,
			LossEvent:    s.upstream.from.dialect.LossEvent(),
		}, s)
	}
	for {
		err := s.connect(wait, set.routes, ask, adopt)
		opened = err == nil
		next := d.current()
		if !errors.Is(err, pool.ErrClosed) || next == set && !d.removed(s.pool) {
			return err
		}
		set, s = next, s.again()
	}
}

// removed reports whether a pool, which may be nil, is no more while the daemon goes on.
func (d *Daemon) removed(p *pool.Pool) bool { return p != nil && d.pools.Get(p.Key()) != p }

// refuseRequest answers what never became a request for a session. A connection that closed without a word (a TCP
// health probe) gets neither answer nor log line.
func (d *Daemon) refuseRequest(conn net.Conn, err error) {
	var bad *wire.RequestError
	if !errors.As(err, &bad) {
		return
	}
	d.log.Debug("request refused", d.shown("client", remote(conn), "status", bad.Status, "error", err)...)
	d.refusals.add(bad.Code)
	wire.WriteError(conn, bad.Status, bad.Code, bad.Message, nil)
}

// maxLoggedModel bounds, in bytes, a model that is logged as the client wrote it.
const maxLoggedModel = 256

// asked is the model that a request names, whatever came of it; "" for none.
func asked(req *wire.Request) string { return req.Query.Get("model") }

// refuseSession answers a request for a session that gets none, and says so in the log once, with the model that was asked
// for where no route was found.
func (d *Daemon) refuseSession(conn net.Conn, s *session, asked string, err error) {
	defer s.hidden.Release()
	model := cmp.Or(s.model, asked)
	if model = d.redact.String(model); len(model) > maxLoggedModel { // cut after: what is left of a secret is not known for one
		model = strings.ToValidUTF8(model[:maxLoggedModel], "") + "…"
	}
	if errors.Is(err, errClientGone) {
		d.refusals.add(clientGone)
		s.traceRefused(nil, err)
		d.log.Debug("session abandoned", d.shown("session", s.id, "client", s.client, "model", model, "error", err)...)
		return
	}
	r := refuse(err)
	d.refusals.add(r.code)
	args := []any{"session", s.id, "client", s.client, "key", s.key, "model", model, "status", r.status, "code", r.code, "error", err}
	d.log.Info("session refused", d.shown(append(args, s.traceField()...)...)...)
	s.traceRefused(r, err)
	wire.WriteError(conn, r.status, r.code, r.message, s.header(r.header()))
}

// header adds what names the session to the header of an answer.
func (s *session) header(h http.Header) http.Header {
	h.Set(headerSession, s.id)
	if s.requestID != "" {
		h.Set(headerRequest, s.requestID)
	}
	return h
}

func remote(conn net.Conn) netip.AddrPort {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

func newSessionID() string { return "rts_" + strings.ToLower(rand.Text()[:20]) }
