package wire

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrBadProxy is wrapped by the error of a dial that was not tried, since its proxy is none that can be used.
var ErrBadProxy = errors.New("unusable proxy")

// ProxyError is the answer of a proxy that does not connect.
type ProxyError struct{ Status int }

func (e *ProxyError) Error() string {
	hint := "it does not connect to this host"
	switch e.Status {
	case http.StatusProxyAuthRequired:
		hint = "give its URL a user and a password that it accepts"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		hint = "it does not reach this host"
	}
	return fmt.Sprintf("it answered CONNECT with status %d; %s", e.Status, hint)
}

// ProxyFor returns the proxy that a dial to u goes through, nil for none. Its errors wrap ErrBadProxy. They, like those of
// a dial, name the host of a proxy and never its user or password.
func (d *Dialer) ProxyFor(u *url.URL) (*url.URL, error) {
	if d.Proxy == nil {
		return nil, nil
	}
	proxy, err := d.Proxy(u)
	switch {
	case err != nil: // which may quote the whole URL
		return nil, fmt.Errorf("%w for %s: its address is not a URL such as http://proxy:3128", ErrBadProxy, u.Host)
	case proxy == nil:
		return nil, nil
	case proxy.Scheme != "http": // a socket inside two layers of TLS is none that the relay can take
		return nil, fmt.Errorf("%w for %s: %s://%s is not of the kind http://, the only one supported", ErrBadProxy, u.Host, proxy.Scheme, proxy.Host)
	case proxy.Hostname() == "" || !isAuthority(proxy.Host):
		return nil, fmt.Errorf("%w for %s: its host is missing or not plain ASCII", ErrBadProxy, u.Host)
	}
	return proxy, nil
}

// reach returns a connection to the host of u, through the proxy if there is one.
func (d *Dialer) reach(ctx context.Context, u, proxy *url.URL) (net.Conn, error) {
	dial := d.NetDial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	if proxy == nil {
		return dial(ctx, "tcp", address(u))
	}
	conn, err := dial(ctx, "tcp", address(proxy))
	if err == nil {
		if err = tunnel(ctx, conn, address(u), proxy.User); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	return conn, nil
}

// tunnel asks the proxy at the other end of conn for target, host:port (RFC 9110 section 9.3.6).
func tunnel(ctx context.Context, conn net.Conn, target string, user *url.Userinfo) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(connectRequest(target, user)); err != nil {
		return err
	}
	var h headReader
	for {
		head, err := h.read(conn)
		if err != nil {
			return responseError(err)
		}
		status, _, err := parseResponse(string(head))
		switch {
		case err != nil:
			return err
		case status >= 300 || status == http.StatusSwitchingProtocols:
			return &ProxyError{status}
		case status < 200:
			h.next() // an interim answer, RFC 9110 section 15.2
			continue
		case len(h.rest()) > 0: // the upstream speaks only after it was spoken to
			return fmt.Errorf("%w: the proxy sent something of its own behind its answer", ErrBadHandshake)
		case !stop(): // the deadline of the past is on the socket, or will be
			return ctx.Err()
		}
		return nil
	}
}

func connectRequest(target string, user *url.Userinfo) []byte {
	b := []byte("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n")
	if user != nil {
		b = append(b, "Proxy-Authorization: Basic "+ProxyCredential(user)+"\r\n"...)
	}
	return append(b, "\r\n"...)
}

// ProxyCredential is what a proxy is sent for user in its Basic scheme (RFC 7617 section 2). It is a secret.
func ProxyCredential(user *url.Userinfo) string {
	password, _ := user.Password()
	return base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
}
