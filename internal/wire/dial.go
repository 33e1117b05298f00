package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ErrBadHandshake is wrapped by the error of a dial whose server answered with something that is not a valid HTTP
// response, or with a 101 that RFC 6455 section 4.1 tells a client to fail.
var ErrBadHandshake = errors.New("invalid answer to the upgrade")

// ErrBadRequest is wrapped by the error of a dial that was not tried, since its URL, a header or a subprotocol is
// nothing that may be put on the wire.
var ErrBadRequest = errors.New("invalid upgrade request")

// Dialer opens WebSocket connections. The zero value is ready to use; it is safe for concurrent use as long as its
// fields are not changed.
type Dialer struct {
	// TLSConfig is used for wss URLs; nil means the system's roots. An empty ServerName is the URL's host, a zero MinVersion
	// is TLS 1.2. With both given it serves every dial as it is; else each has a clone for as long as its connection lasts.
	TLSConfig *tls.Config
	// NetDial makes the TCP connection; nil means a net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy returns the proxy, an http URL, through whose CONNECT a URL is dialled; nil for none. A nil func means no proxies.
	Proxy func(*url.URL) (*url.URL, error)
}

// Timing is how long each step of a dial took; zero where the step did not happen.
type Timing struct {
	DNS     time.Duration // look-up of the host; none for an IP address
	TCP     time.Duration // look-up done to connected, over all addresses tried and through the proxy
	TLS     time.Duration // the TLS handshake
	Upgrade time.Duration // first byte of the request written to 101 read
}

// Upstream is an open WebSocket, and the caller's.
type Upstream struct {
	// Conn has no deadline set. It is what NetDial returned (a *net.TCPConn by default), or for wss a *tls.Conn whose
	// NetConn is a *Transport over that.
	Conn net.Conn
	// Early has the bytes read behind the 101, nil if none; it may end inside a frame.
	Early    []byte
	Header   http.Header // of the 101, with canonical names
	Protocol string      // the subprotocol chosen, "" for none
	Timing   Timing
}

// Dial opens a WebSocket to u, a ws or wss URL, within ctx: its end interrupts every step and closes the socket.
// header goes on the wire as it is, in the order of names; a field that the handshake itself sets, or that is no
// valid header, is refused. No extension is offered, and no redirect is followed.
//
// The error wraps ErrBadRequest or ErrBadProxy if nothing was tried; is a *StatusError for an HTTP answer other than 101;
// wraps ErrBadHandshake for anything else that came as an answer; and else names the step (dns, tcp, tls or upgrade) and
// wraps its error, a *ProxyError for a proxy that does not connect, or context.Cause(ctx) if ctx ended. No error holds the
// URL's query or a header value.
func (d *Dialer) Dial(ctx context.Context, u *url.URL, header http.Header, protocols []string) (*Upstream, error) {
	if err := checkDial(u, header, protocols); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	proxy, err := d.ProxyFor(u)
	if err != nil {
		return nil, err
	}
	up := &Upstream{}
	raw, err := d.connect(ctx, u, proxy, &up.Timing)
	if err != nil {
		return nil, err
	}
	if err := d.handshake(ctx, raw, u, header, protocols, up); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return up, nil
}

// connect does the look-up and the TCP connect. They are told apart by net's own trace, so that its racing of address
// families (RFC 8305) stays.
func (d *Dialer) connect(ctx context.Context, u, proxy *url.URL, timing *Timing) (net.Conn, error) {
	var mu sync.Mutex // a resolver may still report while the dial has given up
	var lookup, looked time.Time
	step := "tcp"
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) {
			mu.Lock()
			defer mu.Unlock()
			lookup, step = time.Now(), "dns"
		},
		DNSDone: func(info httptrace.DNSDoneInfo) {
			mu.Lock()
			defer mu.Unlock()
			looked = time.Now()
			if info.Err == nil {
				step = "tcp"
			}
		},
	})
	start := time.Now()
	conn, err := d.reach(traced, u, proxy)
	end := time.Now()
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		return nil, stepError(ctx, step, u, err)
	}
	if !looked.IsZero() {
		timing.DNS, start = looked.Sub(lookup), looked
	}
	timing.TCP = end.Sub(start)
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetNoDelay(true) // Go's default, but not every NetDial's
	}
	return conn, nil
}

// handshake does TLS and the upgrade over raw and fills up. It leaves raw to the caller if it fails.
func (d *Dialer) handshake(ctx context.Context, raw net.Conn, u *url.URL, header http.Header, protocols []string, up *Upstream) error {
	past := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(past) })
	defer stop()
	up.Conn = raw
	if u.Scheme == "wss" {
		start := time.Now()
		secure := tls.Client(&Transport{raw}, d.tlsConfig(u))
		if err := secure.HandshakeContext(ctx); err != nil {
			return stepError(ctx, "tls", u, err)
		}
		up.Conn, up.Timing.TLS = secure, time.Since(start)
	}
	start := time.Now()
	err := requestUpgrade(up, u, header, protocols)
	up.Timing.Upgrade = time.Since(start)
	var status *StatusError
	switch {
	case errors.As(err, &status): // it says more than that ctx ended as well
		return err
	case err != nil:
		return stepError(ctx, "upgrade", u, err)
	case !stop(): // the deadline of the past is on the socket, or will be
		return stepError(ctx, "upgrade", u, ctx.Err())
	}
	return nil
}

// stepError names the step and the host. What fails when ctx has ended fails because of that.
func stepError(ctx context.Context, step string, u *url.URL, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s %s: %w", step, u.Host, err)
}

func (d *Dialer) tlsConfig(u *url.URL) *tls.Config {
	config := &tls.Config{}
	if c := d.TLSConfig; c != nil {
		if c.ServerName != "" && c.MinVersion != 0 {
			return c
		}
		config = c.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS12
	}
	return config
}

// address is the host and port to connect to.
func address(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "wss":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// checkDial refuses what must not get on the wire.
func checkDial(u *url.URL, header http.Header, protocols []string) error {
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss":
		return errors.New("the URL's scheme must be ws or wss")
	case u.User != nil:
		return errors.New("the URL must not hold user information: send a header")
	case u.Fragment != "" || u.Opaque != "":
		return errors.New("the URL must have neither a fragment nor an opaque part")
	case u.Hostname() == "" || !isAuthority(u.Host):
		return errors.New("the URL's host is missing or not plain ASCII")
	case !isVisible(u.RequestURI()):
		return errors.New("the URL's path or query holds a character that must be escaped")
	}
	for name, values := range header {
		if !isToken(name) {
			return fmt.Errorf("header name %q is not a token", name)
		}
		if isReserved(name) {
			return fmt.Errorf("header %q is set by the handshake itself", name)
		}
		for _, v := range values {
			if !isValue(v) {
				return fmt.Errorf("the value of header %q holds a control character", name)
			}
		}
	}
	for _, p := range protocols {
		if !isToken(p) {
			return errors.New("a subprotocol is not a token")
		}
	}
	return nil
}

// isReserved reports whether the handshake sets the header, or would break by it.
func isReserved(name string) bool {
	switch name = strings.ToLower(name); name {
	case "host", "connection", "upgrade", "content-length", "transfer-encoding", "te", "trailer", "expect":
		return true
	}
	return strings.HasPrefix(name, "sec-websocket-")
}
