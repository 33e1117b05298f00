package daemon

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const theirs = "opaque-key-of-a-client" // of no shape that would be redacted anyway

func passing(c *Config) { c.Auth.PassThrough = true }

func TestAClientsOwnKeyIsPooledOnceItProvedGood(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 2, passing)
	if n := len(r.pools.List()); n != 0 {
		t.Fatalf("%d pools are warm for nobody", n)
	}
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HS) // the gateway's own credential is for nobody here

	c, result := r.connect(bearer + theirs)
	c.ExpectText(wiretest.SessionCreated)
	if result != "bypass" {
		t.Errorf("the first session is a %s", result)
	}
	r.await("pool", func() bool { return len(r.pools.List()) == 1 })
	r.awaitIdle(2)
	c, result = r.connect(bearer + theirs)
	c.ExpectText(wiretest.SessionCreated)
	if result != "hit" {
		t.Errorf("the second session is a %s", result)
	}
	r.awaitIdle(2) // every dial has told its head
	for i := range up.Dials() {
		if head := up.Conn(i + 1).Head(); !strings.Contains(head, "Authorization: Bearer "+theirs+"\r\n") || strings.Contains(head, testKey) {
			t.Errorf("the upstream got\n%s", head)
		}
	}
	other, result := r.connect(bearer + "another-key-of-a-client")
	other.ExpectText(wiretest.SessionCreated)
	if result != "bypass" {
		t.Errorf("another client's first session is a %s", result)
	}
	r.await("pool of its own", func() bool { return len(r.pools.List()) == 2 })

	r.removeIdleOwn(time.Now().Add(ownPoolIdle - time.Minute))
	if n := len(r.pools.List()); n != 2 {
		t.Errorf("%d pools, want 2", n)
	}
	r.removeIdleOwn(time.Now().Add(ownPoolIdle + time.Second))
	if n := len(r.pools.List()); n != 0 {
		t.Errorf("%d pools outlive their clients", n)
	}
	up.Await("idle sessions closed", func(u *wiretest.Upstream) bool { return u.Open() == 3 })
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello") // live sessions go on

	r.stop()
	if s := r.log.String(); strings.Contains(s, theirs) || strings.Contains(s, "another-key") {
		t.Errorf("the log holds a client's key:\n%s", s)
	}
}

func TestAClientsBadKeyIsItsOwnFault(t *testing.T) {
	var good atomic.Bool
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		if good.Load() {
			wiretest.Ready(c)
			return
		}
		c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: " + "22\r\n\r\nIncorrect key " + theirs[:8])
	})
	r := startRig(t, up, 1, passing)
	for range 2 {
		r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+theirs))
	}
	if n, pools := up.Dials(), len(r.pools.List()); n != 2 || pools != 0 {
		t.Errorf("%d dials, %d pools: a key that is not known to be good is tried for its client alone", n, pools)
	}
	good.Store(true)
	r.session(bearer + theirs)
	r.await("pool", func() bool { return len(r.pools.List()) == 1 })
	r.awaitIdle(1)

	good.Store(false) // the key is revoked
	r.session(bearer + theirs)
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+theirs))
	if n := len(r.pools.List()); n != 0 {
		t.Errorf("%d pools of a key that is not good any more", n)
	}
}

func TestOwnPoolsAreBounded(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, passing)
	f := func(n, want int) {
		t.Helper()
		route := r.current().routes.byModel["mock"]
		for i := range n {
			ask := dialect.Ask{Model: "mock"}
			target, err := route.endpoint.dialect.Target(dialect.Upstream{Dialect: "compatible", BaseURL: r.up.URL(), Credential: strings.Repeat("k", i+1)}, ask)
			if err != nil {
				t.Fatal(err)
			}
			r.proven(route, target, ask)
		}
		if got := len(r.pools.List()); got != want {
			t.Errorf("%d pools after %d keys, want %d", got, n, want)
		}
	}
	f(3, 3)
	f(3, 3) // the same ones
	f(maxOwnPools+10, maxOwnPools)
	r.session(bearer + theirs) // served all the same
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+strings.Repeat("k", maxOwnCredential+1)))
}

func TestOwnAccountsComeWithTheirOrganization(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 1, passing, func(c *Config) {
		c.Routes[0].Upstream.Organization, c.Routes[0].Upstream.Project = "org-gateway", "proj-gateway"
	})
	f := func(want string, lines ...string) {
		t.Helper()
		c, got := r.connect(lines...)
		c.ExpectText(wiretest.SessionCreated)
		if got != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
	f("bypass", bearer+theirs, "OpenAI-Organization: org-client")
	r.await("pool", func() bool { return len(r.pools.List()) == 1 })
	r.awaitIdle(1)
	f("hit", bearer+theirs, "OpenAI-Organization: org-client")
	f("bypass", bearer+theirs) // another account
	f("bypass", bearer+theirs, "OpenAI-Organization: org-client", "OpenAI-Other: x")
	f("bypass", bearer+"ek_secret-of-the-provider") // a client secret is never pooled
	f("bypass", bearer+"ek_secret-of-the-provider")
	for i := range up.Dials() {
		if head := up.Conn(i + 1).Head(); strings.Contains(head, "-gateway") {
			t.Errorf("the upstream got the gateway's account beside a client's key:\n%s", head)
		}
	}
}

func TestKeysAndPassThroughGoTogether(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 1, passing, keyed())
	r.awaitIdle(1)
	c, result := r.connect(bearer + clientKey)
	c.ExpectText(wiretest.SessionCreated)
	if head := up.Conn(1).Head(); result != "hit" || !strings.Contains(head, testKey) {
		t.Errorf("a key of the gateway's got a %s of\n%s", result, head)
	}
	r.awaitIdle(1)
	dials := up.Dials()
	c, result = r.connect(bearer + theirs)
	c.ExpectText(wiretest.SessionCreated)
	if head := up.Conn(dials + 1).Head(); result != "bypass" || strings.Contains(head, testKey) || !strings.Contains(head, theirs) {
		t.Errorf("another key got a %s of\n%s", result, head)
	}
	r.refused(http.StatusUnauthorized, "invalid_token", wiretest.HSWith("", bearer+"ek_rtd_forged"))
	r.refused(http.StatusForbidden, "key_required", minting(`{}`, bearer+theirs))
}

func TestCaseI3CredentialsDoNotCrossTheNetworkInClear(t *testing.T) {
	f := func(want bool, change func(*Config)) {
		t.Helper()
		cfg := Config{
			Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: t.TempDir() + "/s",
			Routes: []Route{{Models: []string{"m"}, Upstream: Upstream{Upstream: dialect.Upstream{
				Dialect: "compatible", BaseURL: mustURL(t, "ws://upstream.example/v1"), Credential: testKey,
			}}}},
		}
		change(&cfg)
		d, err := New(cfg)
		if err == nil {
			d.engine.Close()
		}
		if (err == nil) != want || err != nil && (!strings.Contains(err.Error(), "in clear") || strings.Contains(err.Error(), "sk-test")) {
			t.Errorf("%v", err)
		}
	}
	up := func(c *Config) *Upstream { return &c.Routes[0].Upstream }
	f(false, func(*Config) {})
	f(true, func(c *Config) { up(c).AllowPlaintext = true })
	f(true, func(c *Config) { up(c).Credential = "" })
	f(false, func(c *Config) { up(c).Credential = ""; c.Auth.PassThrough = true })
	f(true, func(c *Config) { up(c).BaseURL = mustURL(t, "wss://upstream.example/v1") })
	f(true, func(c *Config) { up(c).BaseURL = mustURL(t, "ws://127.0.0.2/v1") })
}

func TestATokenOfOpenTimesDoesNotOpenTheGatewaysAccount(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	token := r.mint(t, `{"max_uses":5}`)
	r.session(bearer + token)
	r.reload(passing)
	dials := up.Dials()
	r.refused(http.StatusUnauthorized, "invalid_token", wiretest.HSWith("", bearer+token))
	if n := up.Dials() - dials; n != 0 {
		t.Errorf("%d dials", n)
	}
}

func TestACredentialThatCanBeNoneIsNotDialledWith(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	f := func(name string, configure ...func(*Config)) {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, up, 0, configure...)
			dials := up.Dials()
			bad := []string{
				wiretest.HSWith("", bearer+"a b c"), wiretest.HSWith("", bearer+"\xe9\xe9\xe9"), wiretest.HSWith("", bearer+"a\tb"),
				wiretest.HSWith("", "Api-Key: a b"), wiretest.HSWith("", "X-Goog-Api-Key: a\xffb"),
			}
			for _, q := range []string{"a%0d%0aX-Evil:%201", "a%00b", "a%09b", "a%20b", "%e2%82%ac-key-long", "x%7fy", "%e2%80%8bek_rtd_x"} {
				for _, name := range []string{"key", "access_token", "api-key"} {
					bad = append(bad, wiretest.HSWith("/v1/realtime?model=mock&"+name+"="+q))
				}
			}
			for _, request := range bad {
				r.refused(http.StatusUnauthorized, "invalid_api_key", request)
			}
			r.refused(http.StatusUnauthorized, "invalid_api_key", minting(`{}`, bearer+"a b c"))
			for _, q := range []string{"ek_rtd_x", "%20ek_rtd_x", "%0d%0aek_rtd_x%20", "EK_RTD_x"} {
				r.refused(http.StatusUnauthorized, "invalid_token", wiretest.HSWith("/v1/realtime?model=mock&key="+q))
			}
			if n := up.Dials() - dials; n != 0 {
				t.Errorf("%d dials", n)
			}
		})
	}
	f("pass-through", passing)
	f("keys", keyed())
	f("open")
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestAClientWithTheGatewaysOwnKeyHasAPoolApart: what it does with that key must not cost the gateway its pool.
func TestAClientWithTheGatewaysOwnKeyHasAPoolApart(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 1, passing, func(c *Config) {
		c.Auth.Keys = []auth.Key{{Name: "web", Digest: auth.DigestOf("sk-test-web")}} // whose clients use the gateway's
	})
	r.awaitIdle(1)
	gateway := r.pool()
	for range 2 { // the first proves the key, the second meets its pool
		r.session(bearer + testKey).Close()
	}
	r.await("a pool of the client's own", func() bool { return len(r.pools.List()) == 2 })
	for _, p := range r.pools.List() {
		if p != gateway && p.Key() == gateway.Key() {
			t.Error("two pools of one key")
		}
	}
	if s := gateway.Stats(); s.Takes != 0 {
		t.Errorf("the client took %d sessions of the gateway's", s.Takes)
	}
}

// TestAReloadHoldsForConnectionsAcceptedBefore: what counts is when the request came.
func TestAReloadHoldsForConnectionsAcceptedBefore(t *testing.T) {
	key := func(c *Config) { c.Auth.Keys = []auth.Key{{Name: "web", Digest: auth.DigestOf("sk-test-revoked")}} }
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, key)
	early := wiretest.Dial(t, r.addr)
	request := wiretest.HSWith("", bearer+"sk-test-revoked")
	early.SendString(request[:40])
	cfg := r.current().cfg
	cfg.Auth.Keys = []auth.Key{{Name: "other", Digest: auth.DigestOf("sk-test-other")}}
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	early.SendString(request[40:])
	early.ExpectStatus(http.StatusUnauthorized)
}
