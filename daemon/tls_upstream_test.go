package daemon

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// readyOverTLS is wiretest.Ready where a handshake may fail.
func readyOverTLS(c *wiretest.UpstreamConn) {
	if c.Conn.(*tls.Conn).Handshake() == nil {
		wiretest.Ready(c)
	}
}

func TestUpstreamThatAsksForACertificate(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	files := ca.WritePair(t.TempDir(), "first")
	up := wiretest.NewTLSUpstream(t, readyOverTLS, func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	})
	shown := func(n int) string {
		t.Helper()
		return presented(up.Conn(n).Peer.Conn.(*tls.Conn))
	}
	r := startRig(t, up, 0, func(c *Config) { c.Routes[0].Upstream.CertFile, c.Routes[0].Upstream.KeyFile = files.Cert, files.Key })
	r.session()
	if got := shown(1); got != "first" {
		t.Errorf("presented %q", got)
	}
	ca.ReplacePair(files, "second")
	r.await("look at the files", func() bool {
		r.session()
		return shown(up.Dials()) == "second"
	})
	if r.lines("certificate files read again", "CN=second") != 1 {
		t.Error("the log does not say that the certificate was read")
	}

	without := startRig(t, up, 0)
	without.refused(http.StatusBadGateway, "upstream_protocol_error", wiretest.HS)
}

func TestUpstreamServerName(t *testing.T) {
	var asked atomic.Value
	up := wiretest.NewTLSUpstream(t, readyOverTLS, func(c *tls.Config) {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			asked.Store(hello.ServerName)
			return nil, nil
		}
	})
	r := startRig(t, up, 0, func(c *Config) { c.Routes[0].Upstream.ServerName = "localhost" })
	r.session()
	if asked.Load() != "localhost" || !strings.Contains(up.Conn(1).Head(), "\r\nHost: "+up.Addr()+"\r\n") {
		t.Errorf("asked for %v with\n%s", asked.Load(), up.Conn(1).Head())
	}
	wrong := startRig(t, up, 0, func(c *Config) { c.Routes[0].Upstream.ServerName = "elsewhere.example" })
	wrong.refused(http.StatusBadGateway, "upstream_protocol_error", wiretest.HS)
}

// elsewhere makes the rig's upstream a host that only a proxy finds.
func elsewhere(scheme string) func(*Config) {
	return func(c *Config) {
		u := &c.Routes[0].Upstream
		u.BaseURL, u.ServerName, u.AllowPlaintext = &url.URL{Scheme: scheme, Host: "upstream.invalid", Path: "/v1"}, "localhost", true
	}
}

// setProxies leaves of the environment's proxies those given.
func setProxies(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"} {
		t.Setenv(name, vars[name])
	}
}

func TestUpstreamThroughAProxyOfTheEnvironment(t *testing.T) {
	up := wiretest.NewTLSUpstream(t, wiretest.Ready)
	proxy := wiretest.NewProxy(t, up.Addr(), "")
	with := proxy.URL()
	with.User = url.UserPassword("user", "sk-test-proxy")
	setProxies(t, map[string]string{"HTTPS_PROXY": with.String(), "HTTP_PROXY": "http://127.0.0.1:1"})
	r := startRig(t, up, 2, elsewhere("wss"))
	r.awaitIdle(2)
	c := r.session()
	echoesHello(c)
	asked := strings.Join(proxy.Asked(), "")
	if !strings.HasPrefix(asked, "CONNECT upstream.invalid:443 HTTP/1.1\r\n") || strings.Contains(asked, testKey) {
		t.Errorf("the proxy was asked %q", asked)
	}
}

func TestPlainUpstreamThroughAProxyOfTheEnvironment(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	proxy := wiretest.NewProxy(t, up.Addr(), "")
	setProxies(t, map[string]string{"HTTP_PROXY": proxy.URL().Host, "HTTPS_PROXY": "http://127.0.0.1:1"})
	r := startRig(t, up, 0, elsewhere("ws"))
	echoesHello(r.session())
}

func TestCaseK8LoopbackIsExemptFromProxies(t *testing.T) {
	for _, up := range []*wiretest.Upstream{wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewTLSUpstream(t, wiretest.Ready)} {
		proxy := wiretest.NewProxy(t, up.Addr(), "")
		setProxies(t, map[string]string{"HTTPS_PROXY": proxy.URL().String(), "HTTP_PROXY": proxy.URL().String()})
		r := startRig(t, up, 1)
		r.awaitIdle(1)
		r.session()
		if asked := proxy.Asked(); len(asked) != 0 {
			t.Errorf("the proxy was asked %q", asked)
		}
	}
}

func TestNoProxy(t *testing.T) {
	f := func(base, noProxy string, want bool) {
		t.Helper()
		setProxies(t, map[string]string{"HTTPS_PROXY": "http://proxy:3128", "HTTP_PROXY": "http://proxy:3128", "NO_PROXY": noProxy})
		got, err := proxyFromEnvironment()(mustURL(t, base))
		if err != nil || (got != nil) != want {
			t.Errorf("%s with NO_PROXY=%q: %v, %v", base, noProxy, got, err)
		}
	}
	f("wss://api.openai.com/v1", "", true)
	f("ws://api.openai.com/v1", "", true)
	f("wss://api.openai.com/v1", "openai.com", false)
	f("wss://api.openai.com/v1", ".openai.com", false)
	f("wss://api.openai.com/v1", "*", false)
	f("wss://api.openai.com:8443/v1", "api.openai.com:443", true)
	f("wss://10.1.2.3/v1", "10.0.0.0/8", false)
	f("wss://localhost/v1", "", false)
	f("wss://127.0.0.2:8443/v1", "", false)
	f("ws://[::1]:8443/v1", "", false)
}

// TestProxyFailures: what a client and the log learn of a proxy that does not connect. It holds no password.
func TestProxyFailures(t *testing.T) {
	proxy := wiretest.NewProxy(t, "", "HTTP/1.1 407 sk-test-proxy dXNlcjpzay10ZXN0LXByb3h5\r\n\r\n")
	with := proxy.URL()
	with.User = url.UserPassword("user", "sk-test-proxy")
	setProxies(t, map[string]string{"HTTPS_PROXY": with.String()})
	r := startRig(t, wiretest.NewTLSUpstream(t, wiretest.Ready), 1, elsewhere("wss"))
	r.refused(http.StatusBadGateway, "upstream_unreachable", wiretest.HS)
	r.await("line of a failed dial", func() bool { return r.lines("upstream dial failed", "proxy "+with.Host, "status 407", `"refused"`) > 0 })
	r.log.Write([]byte(r.redact.String("password sk-test-proxy, header dXNlcjpzay10ZXN0LXByb3h5")))
	r.stop()
	if s := r.log.String(); strings.Contains(s, "sk-test-proxy") || strings.Contains(s, "dXNlcjpzay10ZXN0LXByb3h5") {
		t.Errorf("the log holds the proxy's credential:\n%s", s)
	}
}

func TestUnusableProxyEndsTheStart(t *testing.T) {
	f := func(proxy, want string) {
		t.Helper()
		setProxies(t, map[string]string{"HTTPS_PROXY": proxy})
		d, err := New(Config{
			Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: t.TempDir() + "/s",
			Routes: []Route{{Models: []string{"m"}, Upstream: Upstream{Upstream: rigUpstream(mustURL(t, "wss://upstream.example/v1"))}}},
		})
		if err == nil {
			d.engine.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%s: %v, want an error with %q", proxy, err, want)
		}
	}
	f("https://user:sk-test-proxy@proxy:3128", "https://proxy:3128 is not of the kind http://")
	f("socks5://proxy:1080", "socks5://proxy:1080 is not of the kind http://")
	f("http://user:sk-test-proxy@bad host", "not a URL")
	f("http://user:sk-test-proxy%@proxy", "not a URL")
}

// TestProxyThatSaysNothing: one deadline bounds the proxy, TLS, the upgrade and the first frames.
func TestProxyThatSaysNothing(t *testing.T) {
	proxy := wiretest.NewProxy(t, "", "HTTP/1.1 200")
	setProxies(t, map[string]string{"HTTPS_PROXY": proxy.URL().String()})
	r := startRig(t, wiretest.NewTLSUpstream(t, wiretest.Ready), 0, elsewhere("wss"), func(c *Config) { c.Routes[0].Pool.DialTimeout = 200 * time.Millisecond })
	begun := time.Now()
	r.refused(http.StatusGatewayTimeout, "upstream_timeout", wiretest.HS)
	if took := time.Since(begun); took > DefaultReadyTimeout/2 {
		t.Errorf("answered after %v", took)
	}
}
