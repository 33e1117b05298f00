package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// far is a name that nothing resolves but the proxy.
const far = "upstream.invalid"

func through(proxy *url.URL) func(*url.URL) (*url.URL, error) {
	return func(*url.URL) (*url.URL, error) { return proxy, nil }
}

func withUser(u *url.URL, name, password string) *url.URL {
	u.User = url.UserPassword(name, password)
	return u
}

func TestDialThroughAProxy(t *testing.T) {
	u := wiretest.NewUpstream(t, nil)
	p := wiretest.NewProxy(t, u.Addr(), "")
	d := &Dialer{Proxy: through(withUser(p.URL(), "user", "sk-test-p@ss"))}
	target := &url.URL{Scheme: "ws", Host: far, Path: "/v1/realtime", RawQuery: "model=m"}
	up := mustDial(t, d, target, http.Header{"Authorization": {"Bearer sk-test-1"}})
	echoes(t, up)
	if _, ok := up.Conn.(*net.TCPConn); !ok {
		t.Errorf("the connection is a %T, which the relay cannot take", up.Conn)
	}
	if up.Timing.DNS != 0 || up.Timing.TCP <= 0 || up.Timing.TLS != 0 || up.Timing.Upgrade <= 0 {
		t.Errorf("timing %+v", up.Timing)
	}
	want := "CONNECT " + far + ":80 HTTP/1.1\r\nHost: " + far + ":80\r\nProxy-Authorization: Basic dXNlcjpzay10ZXN0LXBAc3M=\r\n\r\n"
	if asked := p.Asked(); len(asked) != 1 || asked[0] != want {
		t.Errorf("the proxy was asked %q, want %q once", asked, want)
	}
	if head := u.Conn(1).Head(); strings.Contains(head, "Proxy-") || !strings.Contains(head, "\r\nHost: "+far+"\r\n") {
		t.Errorf("the upstream got\n%s", head)
	}
}

func TestDialThroughAProxyWithTLS(t *testing.T) {
	u := wiretest.NewTLSUpstream(t, nil)
	p := wiretest.NewProxy(t, u.Addr(), "")
	d := &Dialer{Proxy: through(p.URL()), TLSConfig: &tls.Config{RootCAs: u.Roots(), ServerName: "localhost"}}
	up := mustDial(t, d, &url.URL{Scheme: "wss", Host: far + ":8443", Path: "/"}, http.Header{"Authorization": {"Bearer sk-test-1"}})
	echoes(t, up)
	secure, ok := up.Conn.(*tls.Conn)
	if !ok {
		t.Fatalf("the connection is a %T", up.Conn)
	}
	if transport, ok := secure.NetConn().(*Transport); !ok {
		t.Errorf("under TLS is a %T", secure.NetConn())
	} else if _, ok := transport.Conn.(*net.TCPConn); !ok {
		t.Errorf("under the transport is a %T", transport.Conn)
	}
	if asked := p.Asked(); len(asked) != 1 || asked[0] != "CONNECT "+far+":8443 HTTP/1.1\r\nHost: "+far+":8443\r\n\r\n" {
		t.Errorf("the proxy was asked %q: it must see nothing but the host", asked)
	}
}

func TestProxiesThatDoNotConnect(t *testing.T) {
	f := func(answer, want string, check func(error) bool) {
		t.Helper()
		p := wiretest.NewProxy(t, "", answer)
		_, err := dial(t, &Dialer{Proxy: through(withUser(p.URL(), "user", "sk-test-pass"))}, &url.URL{Scheme: "wss", Host: far, Path: "/"}, nil)
		if err == nil || !check(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", answer, err, want)
			return
		}
		if !strings.Contains(err.Error(), "proxy 127.0.0.1:") || !strings.Contains(err.Error(), far) || strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%q: %v: it must name both hosts and no secret", answer, err)
		}
	}
	status := func(want int) func(error) bool {
		return func(err error) bool {
			var refused *ProxyError
			return errors.As(err, &refused) && refused.Status == want
		}
	}
	bad := func(err error) bool { return errors.Is(err, ErrBadHandshake) }
	f("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", "a user and a password", status(407))
	f("HTTP/1.1 403 Forbidden\r\n\r\n", "status 403", status(403))
	f("HTTP/1.1 502 Bad Gateway\r\n\r\n", "does not reach", status(502))
	f("HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", "status 302", status(302))
	f("HTTP/1.1 101 Switching Protocols\r\n\r\n", "status 101", status(101))
	f("HTTP/1.1 200 OK\r\n\r\nhello", "behind its answer", bad)
	f("SSH-2.0-x\r\n\r\n", "", bad)
	f("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", MaxHeadBytes)+"\r\n\r\n", "longer than 16 KiB", bad)
	f("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 Bad Gateway\r\n\r\n", "status 502", status(502))
}

func TestUnusableProxies(t *testing.T) {
	f := func(proxy string, failure error, want string) {
		t.Helper()
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		d := &Dialer{
			Proxy: func(*url.URL) (*url.URL, error) { return u, failure },
			NetDial: func(context.Context, string, string) (net.Conn, error) {
				t.Errorf("%s: dialled", proxy)
				return nil, net.ErrClosed
			},
		}
		_, err = dial(t, d, &url.URL{Scheme: "wss", Host: far, Path: "/"}, nil)
		if !errors.Is(err, ErrBadProxy) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%s: %v, want an error with %q", proxy, err, want)
		}
	}
	f("https://user:sk-test-pass@proxy:3128", nil, "https://proxy:3128 is not of the kind http://")
	f("socks5://user:sk-test-pass@proxy:1080", nil, "socks5://proxy:1080")
	f("http://user:sk-test-pass@:3128", nil, "host")
	f("", errors.New("invalid proxy address http://user:sk-test-pass@"), "not a URL")
}

// TestOneDeadlineForProxyAndUpgrade: a proxy that takes a connection and says nothing holds a dial no longer than an
// upstream that does.
func TestOneDeadlineForProxyAndUpgrade(t *testing.T) {
	const limit = 100 * time.Millisecond
	f := func(proxy *wiretest.Proxy) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		begun := time.Now()
		_, err := (&Dialer{Proxy: through(proxy.URL())}).Dial(ctx, &url.URL{Scheme: "ws", Host: far, Path: "/"}, nil, nil)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) || took > limit+10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	}
	f(wiretest.NewProxy(t, "", "HTTP/1.1 200"))
	silent := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.ExpectEOF() })
	f(wiretest.NewProxy(t, silent.Addr(), ""))
}
