package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

const clientKey = "sk-test-client"

// keyed configures one client key, "web".
func keyed(change ...func(*auth.Key)) func(*Config) {
	k := auth.Key{Name: "web", Digest: auth.DigestOf(clientKey)}
	for _, c := range change {
		c(&k)
	}
	return func(c *Config) { c.Auth.Keys = append(c.Auth.Keys, k) }
}

// refused sends a request and expects that status and code; it returns the answer's header.
func (r *rig) refused(status int, code, request string) http.Header {
	r.t.Helper()
	c := wiretest.Dial(r.t, r.addr)
	c.SendString(request)
	h, body := c.ExpectStatus(status)
	c.ExpectEOF()
	var answer struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error.Code != code || answer.Error.Message == "" || answer.Error.Type == "" {
		r.t.Errorf("answer %d %s, want %d %s in the provider's shape", status, body, status, code)
	}
	if h.Get("Connection") != "close" {
		r.t.Errorf("Connection: %q", h.Get("Connection"))
	}
	return h
}

func TestEveryFormOfAClientKey(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0, keyed())
	n := 0
	f := func(target, protocol string, lines ...string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith(target, lines...))
		h := c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		if got := h.Get("Sec-WebSocket-Protocol"); got != protocol {
			t.Errorf("%q: accepted subprotocol %q, want %q", lines, got, protocol)
		}
		n++
		if head := up.Conn(n).Head(); strings.Contains(head, clientKey) {
			t.Errorf("%q: the upstream got\n%s", lines, head)
		}
	}
	f("", "", "Authorization: Bearer "+clientKey)
	f("", "", "authorization: bEARER  "+clientKey)
	f("", "", "Api-Key: "+clientKey)
	f("", "", "X-Goog-Api-Key: "+clientKey)
	f("/v1/realtime?model=mock&key="+clientKey, "")
	f("/v1/realtime?model=mock&access_token="+clientKey, "")
	f("/v1/realtime?model=mock&api-key="+clientKey, "")
	f("", "realtime", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key."+clientKey)
	f("", "realtime", "Sec-WebSocket-Protocol: openai-insecure-api-key."+clientKey+", realtime")
	f("", "chat", "Sec-WebSocket-Protocol: openai-insecure-api-key."+clientKey+", chat")

	h := r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HS)
	if h.Get("WWW-Authenticate") == "" || h.Get("Rtd-Session-Id") == "" {
		t.Errorf("header %v", h)
	}
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", "Authorization: Bearer "+clientKey+"x"))
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", "Authorization: Basic "+clientKey))
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("/v1/realtime")) // before anything is said of the missing model
	r.refused(http.StatusBadRequest, "missing_model", wiretest.HSWith("/v1/realtime", "Authorization: Bearer "+clientKey))
}

func TestLimitsOfAKey(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0,
		keyed(func(k *auth.Key) { k.MaxSessions = 1 }),
		func(c *Config) {
			add := func(name string, change func(*auth.Key)) {
				k := auth.Key{Name: name, Digest: auth.DigestOf("sk-test-" + name)}
				change(&k)
				c.Auth.Keys = append(c.Auth.Keys, k)
			}
			add("slow", func(k *auth.Key) { k.ConnectsPerSecond = 0.1 })
			add("other", func(k *auth.Key) { k.Models = []string{"other"} })
			add("old", func(k *auth.Key) { k.ExpiresAt = time.Now().Add(-time.Second) })
		})
	hs := func(key string) string { return wiretest.HSWith("", "Authorization: Bearer "+key) }
	f := func(status int, code, key string) {
		t.Helper()
		h := r.refused(status, code, hs(key))
		if status == http.StatusTooManyRequests && (h.Get("Retry-After") == "" || h.Get("Retry-After") == "0") {
			t.Errorf("%s: Retry-After %q", code, h.Get("Retry-After"))
		}
	}
	f(http.StatusForbidden, "model_not_allowed", "sk-test-other")
	f(http.StatusUnauthorized, "api_key_expired", "sk-test-old")

	first := r.session("Authorization: Bearer " + clientKey)
	f(http.StatusTooManyRequests, "too_many_sessions", clientKey)
	first.SendClose(1000, "")
	first.ExpectClose(1000)
	r.await("end of the session", func() bool { return r.sessions.len() == 0 })
	r.session("Authorization: Bearer " + clientKey)

	r.session("Authorization: Bearer sk-test-slow")
	f(http.StatusTooManyRequests, "rate_limit_exceeded", "sk-test-slow")
	if s := r.log.String(); !strings.Contains(s, `client key \"slow\": connects too fast`) {
		t.Errorf("the log does not say which key:\n%s", s)
	}
}

func TestASessionKnowsItsKeysName(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("", "Authorization: Bearer "+clientKey, "X-Request-Id: req-1"))
	if h := c.Expect101(); h.Get("X-Request-Id") != "req-1" {
		t.Errorf("answer %v", h)
	}
	c.ExpectText(wiretest.SessionCreated)
	list, err := (&sessionService{d: r.Daemon}).ListSessions(t.Context(), &rtdv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if s := list.GetSessions()[0]; s.GetKeyName() != "web" || s.GetRequestId() != "req-1" || strings.Contains(list.String(), clientKey) {
		t.Errorf("%v", s)
	}
	c.SendClose(1000, "")
	c.ExpectClose(1000)
	r.stop()
	line := ""
	for l := range strings.Lines(r.log.String()) {
		if strings.Contains(l, "session ended") {
			line = l
		}
	}
	if !strings.Contains(line, `"key":"web"`) || !strings.Contains(line, `"request":"req-1"`) || strings.Contains(r.log.String(), clientKey) {
		t.Errorf("line %s", line)
	}
}

func TestRequestIdsThatCannotBeShown(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	f := func(lines ...string) {
		t.Helper()
		h := r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", lines...))
		if got, ok := h["X-Request-Id"]; ok {
			t.Errorf("%q: given back %q", lines, got)
		}
	}
	f("X-Request-Id: " + strings.Repeat("a", maxRequestID+1))
	f("X-Request-Id: a b")
	f(`X-Request-Id: a"b`)
	f("X-Request-Id: é")
	f("X-Request-Id: sk-test-mistaken")
	f("X-Request-Id: a", "X-Request-Id: b")
	f("X-Request-Id:")
	h := r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", "X-Request-Id: 0af7651916cd43dd/span:1"))
	if h.Get("X-Request-Id") != "0af7651916cd43dd/span:1" {
		t.Errorf("header %v", h)
	}
}

func TestARequestIDTellsNothingOfOtherPeoplesSecrets(t *testing.T) {
	const upstreamKey, otherClient = "provider-pass-of-the-gateway", "credential-of-another-client"
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) {
		c.Routes[0].Upstream.Credential = upstreamKey
		c.Auth.Keys = []auth.Key{{Name: "web", Digest: auth.DigestOf(clientKey)}, {Name: "other", Digest: auth.DigestOf(otherClient)}}
	})
	r.session(bearer + otherClient)
	var guesses []*wiretest.Client
	for _, guess := range []string{upstreamKey, otherClient, upstreamKey + "-not", otherClient + "-not", "a" + upstreamKey[1:], "a" + otherClient[1:]} {
		if got := r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", "X-Request-Id: "+guess)).Get("X-Request-Id"); got != guess {
			t.Errorf("%q: given back %q", guess, got)
		}
		guesses = append(guesses, r.session(bearer+clientKey, "X-Request-Id: "+guess))
	}
	for where, text := range r.outputs() {
		silent(t, where, text, upstreamKey, otherClient)
	}
	for _, c := range guesses {
		c.Close()
	}
	r.await("end of the guesses", func() bool { return r.sessions.len() == 1 }) // what is hidden is a key in use
	r.stop()
	silent(t, "the log", r.log.String(), upstreamKey, otherClient)
	if h := r.log.String(); !strings.Contains(h, `"request":"a`+upstreamKey[1:]+`"`) {
		t.Errorf("the log holds no request:\n%s", h)
	}
}

func TestLimitsAndTokensOutliveAReload(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed(func(k *auth.Key) { k.MaxSessions = 2 }))
	token := r.mint(t, `{}`, "Authorization: Bearer "+clientKey)
	r.session("Authorization: Bearer " + clientKey)
	cfg := r.current().cfg
	cfg.Auth.Keys = append(cfg.Auth.Keys, auth.Key{Name: "new", Digest: auth.DigestOf("sk-test-new")})
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	r.session("Authorization: Bearer sk-test-new")
	r.session("Authorization: Bearer " + token)
	r.refused(http.StatusTooManyRequests, "too_many_sessions", wiretest.HSWith("", "Authorization: Bearer "+clientKey))

	cfg.Auth.Keys = cfg.Auth.Keys[1:]
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", "Authorization: Bearer "+clientKey))
	if n := r.sessions.len(); n != 3 {
		t.Errorf("%d sessions live on, want 3", n)
	}
}

func TestAReloadNeitherForgetsSessionsNorKeepsAnOldRate(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed(func(k *auth.Key) { k.MaxSessions, k.ConnectsPerSecond, k.Burst = 2, 0.01, 3 }))
	hs := wiretest.HSWith("", bearer+clientKey)
	keys := r.current().cfg.Auth.Keys
	change := func(name string, rate float64, burst int) func(*Config) {
		k := keys[0]
		k.Name, k.ConnectsPerSecond, k.Burst = name, rate, burst
		return func(c *Config) { c.Auth.Keys = []auth.Key{k} }
	}
	r.session(bearer + clientKey)
	r.session(bearer + clientKey)
	r.refused(http.StatusTooManyRequests, "too_many_sessions", hs)
	r.refused(http.StatusTooManyRequests, "rate_limit_exceeded", hs)
	r.reload(func(c *Config) { c.Auth.Keys = []auth.Key{{Name: "other", Digest: auth.DigestOf("sk-test-other")}} })
	r.reload(change("renamed", 0.01, 3))
	r.refused(http.StatusTooManyRequests, "rate_limit_exceeded", hs)
	r.reload(change("web", 0.5, 3))
	if after := r.refused(http.StatusTooManyRequests, "rate_limit_exceeded", hs).Get("Retry-After"); after != "2" {
		t.Errorf("Retry-After %s, want 2 at one connect in 2 s", after)
	}
	r.reload(change("web", 0.5, 100))
	r.refused(http.StatusTooManyRequests, "too_many_sessions", hs)
}

func TestWithoutKeysOnlyLoopbackIsServed(t *testing.T) {
	f := func(want bool, addr string, change func(*Config)) {
		t.Helper()
		cfg := Config{
			Listen: []string{addr}, Admin: "127.0.0.1:0", Socket: t.TempDir() + "/s",
			Routes: []Route{{Models: []string{"m"}, Upstream: Upstream{Upstream: dialect.Upstream{Dialect: "compatible", BaseURL: mustURL(t, "ws://127.0.0.1:1/v1")}}}},
		}
		change(&cfg)
		d, err := New(cfg)
		if err == nil {
			d.engine.Close()
		}
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "no client key") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	open := func(*Config) {}
	for _, addr := range []string{"127.0.0.1:0", "127.9.9.9:0", "[::1]:0", "localhost:0"} {
		f(true, addr, open)
	}
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "gateway.example:0", "[::ffff:192.0.2.1]:0"} {
		f(false, addr, open)
		f(false, addr, passing) // a key of the client's own says nothing about the client
		f(true, addr, keyed())
	}

	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed(), func(c *Config) { c.Listen = []string{"0.0.0.0:0"} })
	cfg := r.current().cfg
	cfg.Auth.Keys = nil
	if _, err := r.Reload(cfg); err == nil || !strings.Contains(err.Error(), "no client key") {
		t.Errorf("a reload that takes the last key away: %v", err)
	}
	r.addr = "127.0.0.1" + r.addr[strings.LastIndex(r.addr, ":"):]
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HS)
}
