package sim

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// ErrConfig is wrapped by every error of New that a change of the Config would cure.
var ErrConfig = errors.New("sim: bad configuration")

const (
	// headTimeout bounds the time a peer may take over its request head.
	headTimeout = 10 * time.Second
	// closeTimeout bounds the wait for a peer's Close, and the wait for a peer to take what is still being sent.
	closeTimeout = time.Second
	// shutdownReason is what clients read when the server is closed under them.
	shutdownReason = "the scripted upstream is shutting down"
)

// Config says how the upstream behaves. The zero value answers at once and never fails.
type Config struct {
	// TLS serves wss with a certificate made at start, for localhost, the loopback addresses and the host's name.
	TLS bool
	// DialDelay is the wait between the upgrade request and its answer, whatever the answer. Default 0.
	DialDelay time.Duration
	// SessionDelay is the wait between the 101 and session.created. Default 0.
	SessionDelay time.Duration
	// ResponseDelay is the wait between response.created and the response's first delta. Default 0.
	ResponseDelay time.Duration
	// AudioMS is the length of a spoken answer in milliseconds. Default 1000, at most 600000.
	AudioMS int
	// ChunkMS is the length of the audio in one delta in milliseconds. Default 100, at most 10000.
	ChunkMS int
	// RealtimeFactor is the speed at which audio is sent: 1 as fast as it plays, 2 twice that. Default 0: without pauses.
	RealtimeFactor float64
	// ExpiresIn is the life of a session: it is announced as expires_at, in whole seconds, and at its end the session is
	// closed with 1001. Default 0: neither.
	ExpiresIn time.Duration
	// MaxSessions bounds the connections that are open or in their handshake; more are refused with 429. Default 0: no bound.
	MaxSessions int
	// BetaNames uses the event names and the session's shape of the retired beta API.
	BetaNames bool
	// Echo sends every chunk of audio that begins with a Stamp back as a delta of audio, at once, with its arrival in the
	// stamp. Default: off.
	Echo bool
	// RequireKey is the only credential that is let in; others are refused with 401. Default "": all are let in.
	RequireKey string
	// Fail are the failures to act out, tried in order on every upgrade request. Default none.
	Fail []Rule
}

func (c *Config) complete() error {
	for name, d := range map[string]time.Duration{
		"DialDelay": c.DialDelay, "SessionDelay": c.SessionDelay, "ResponseDelay": c.ResponseDelay, "ExpiresIn": c.ExpiresIn,
	} {
		if d < 0 {
			return fmt.Errorf("%w: %s is %v; it must not be negative", ErrConfig, name, d)
		}
	}
	if c.AudioMS == 0 {
		c.AudioMS = 1000
	}
	if c.ChunkMS == 0 {
		c.ChunkMS = 100
	}
	switch {
	case c.AudioMS < 0 || c.AudioMS > 600_000:
		return fmt.Errorf("%w: AudioMS is %d; it must be from 1 to 600000", ErrConfig, c.AudioMS)
	case c.ChunkMS < 0 || c.ChunkMS > 10_000:
		return fmt.Errorf("%w: ChunkMS is %d; it must be from 1 to 10000", ErrConfig, c.ChunkMS)
	case c.RealtimeFactor < 0 || math.IsNaN(c.RealtimeFactor) || math.IsInf(c.RealtimeFactor, 0):
		return fmt.Errorf("%w: RealtimeFactor is %v; it must be 0 or a positive number", ErrConfig, c.RealtimeFactor)
	case c.MaxSessions < 0:
		return fmt.Errorf("%w: MaxSessions is %d; it must not be negative", ErrConfig, c.MaxSessions)
	}
	for i, r := range c.Fail {
		if r.act == actNone {
			return fmt.Errorf("%w: failure rule %d is empty; make it with ParseRule", ErrConfig, i+1)
		}
	}
	return nil
}

// Server is one scripted upstream. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	http  *http.Server
	tls   *tls.Config
	caPEM []byte
	tag   string // tells this server's identifiers from another's
	tone  tone
	fail  []*armedRule

	stop   context.Context // done once Close has begun
	cancel context.CancelFunc
	wg     sync.WaitGroup // request handlers and sessions

	counters counters

	mu      sync.Mutex // guards what follows; no I/O under it
	addr    net.Addr
	closing bool
	census  census
	conns   map[int64]*conn
	ended   endedConns
	pending map[net.Conn]struct{} // hijacked to fail in place of the 101
}

// New makes a server that does not listen yet. The error wraps ErrConfig, or says why no certificate could be made.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, tag: newTag(), tone: newTone(cfg.ChunkMS), conns: map[int64]*conn{}, pending: map[net.Conn]struct{}{}}
	for _, r := range cfg.Fail {
		s.fail = append(s.fail, &armedRule{Rule: r})
	}
	if cfg.TLS {
		var err error
		if s.tls, s.caPEM, err = selfSigned(time.Now()); err != nil {
			return nil, fmt.Errorf("sim: make a certificate: %w", err)
		}
	}
	s.stop, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		ReadHeaderTimeout: headTimeout,
		MaxHeaderBytes:    16 << 10,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // an upgrade needs HTTP/1.1
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.stop },
	}
	return s, nil
}

// newTag gives four characters that make identifiers of two servers differ.
func newTag() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:4]
}

// Listen binds a TCP address, so that URL is known before Serve runs. The listener is the caller's until Serve gets it.
func (s *Server) Listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	s.setAddr(ln.Addr())
	return ln, nil
}

// Serve accepts connections on ln, which must not speak TLS itself, until ctx is done or Close is called. It closes ln,
// waits until every connection has ended, and returns nil unless the listener failed. Call it once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	s.setAddr(ln.Addr())
	if s.tls != nil {
		ln = tls.NewListener(ln, s.tls)
	}
	defer context.AfterFunc(ctx, s.Close)()
	err := s.http.Serve(ln)
	s.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("sim: serve: %w", err)
}

// Addr is the address given to Serve or bound by Listen, nil before either.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

func (s *Server) setAddr(a net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = a
}

// URL is the realtime endpoint, such as ws://127.0.0.1:4010/v1/realtime; "" while Addr is nil.
func (s *Server) URL() string {
	a := s.Addr()
	if a == nil {
		return ""
	}
	scheme := "ws"
	if s.tls != nil {
		scheme = "wss"
	}
	return scheme + "://" + a.String() + "/v1/realtime"
}

// CAPEM is the certificate a client must trust to reach a TLS server; nil without TLS.
func (s *Server) CAPEM() []byte { return s.caPEM }

// Close ends the server: it stops accepting, closes every session with 1001, gives peers a second to answer, and returns
// when every session and request handler has ended. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	conns := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	for nc := range s.pending {
		_ = nc.Close()
	}
	s.mu.Unlock()

	if first {
		s.cancel()
		_ = s.http.Close()
		deadline := time.Now().Add(closeTimeout)
		for _, c := range conns {
			_ = c.nc.SetWriteDeadline(deadline) // one instant for all: a peer that reads nothing delays nobody else
		}
		for _, c := range conns {
			c.close(ws.StatusGoingAway, shutdownReason)
		}
	}
	s.wg.Wait()
}

// enter counts one more goroutine of the server, unless it is closing.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Add(1)
	return true
}

// hold makes Close close a hijacked connection until release. It is false, and the connection closed, when Close came first.
func (s *Server) hold(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		_ = nc.Close()
		return false
	}
	s.pending[nc] = struct{}{}
	return true
}

func (s *Server) release(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, nc)
}

// register makes a connection known and leaves the handshake; it is false when Close came first.
func (s *Server) register(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[c.id] = c
	s.census.opened()
	return true
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.id)
	s.census.open--
	s.ended.add(c.stats(false))
}

// buffered takes what a hijacked connection has already read, without keeping its buffers alive.
func buffered(rw *bufio.ReadWriter) []byte {
	n := rw.Reader.Buffered()
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	_, _ = io.ReadFull(rw.Reader, b)
	return b
}
