package daemon

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

const providerSecret = "ek_test-minted-by-the-provider"

// taking makes the rig's route take client secrets of the provider, and adds one, "strict", that does not.
func taking(c *Config) {
	strict := c.Routes[0]
	strict.Models = []string{"strict"}
	strict.Upstream.Model = "strict"
	c.Routes[0].AllowClientSecrets = true
	c.Routes = append(c.Routes, strict)
}

// secretUpstream opens sessions, but not for a secret that has ended.
func secretUpstream(t *testing.T) *wiretest.Upstream {
	return wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		if strings.HasSuffix(req.Header.Get("Authorization"), "ended") {
			c.SendString("HTTP/1.1 401 Unauthorized\r\nContent-Length: 40\r\n\r\nincorrect: " + providerSecret[:29])
			return
		}
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		c.Echo()
	})
}

// awaitAllIdle waits until n pools have a warm session each.
func (r *rig) awaitAllIdle(n int) {
	r.t.Helper()
	r.await("warm pools", func() bool {
		idle := 0
		for _, p := range r.pools.List() {
			idle += p.Stats().Idle
		}
		return idle == n
	})
}

func TestAClientSecretOfTheProviderGoesPastThePool(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 1, taking, keyed(), func(c *Config) {
		c.Routes[0].Upstream.Organization, c.Routes[0].Upstream.Project = "org-gateway", "proj-gateway"
		c.AllowedOrigins = []string{"https://app.example"}
	})
	r.awaitAllIdle(2)
	f := func(target, protocol string, lines ...string) {
		t.Helper()
		dials := up.Dials()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith(target, lines...) + string(wiretest.Hex(t, wiretest.Hello)))
		h := c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		c.ExpectText("Hello")
		if h.Get("Rtd-Pool") != "bypass" || h.Get("Sec-WebSocket-Protocol") != protocol {
			t.Errorf("%q: header %v", lines, h)
		}
		head := up.Conn(dials + 1).Head()
		if !strings.Contains(head, "\r\nAuthorization: Bearer "+providerSecret+"\r\n") || strings.Contains(head, testKey) || strings.Contains(head, "-gateway") ||
			strings.Count(head, providerSecret) != 1 {
			t.Errorf("%q: the upstream got\n%s", lines, head)
		}
		if n := up.Dials() - dials; n != 1 {
			t.Errorf("%d dials for one client", n)
		}
	}
	for range 2 { // it is not pooled, however good it proved
		f("", "", bearer+providerSecret)
	}
	f("", "", bearer+providerSecret, "Origin: https://app.example", "OpenAI-Organization: org-client")
	f("", "realtime", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key."+providerSecret)
	f("", "", "Api-Key: "+providerSecret)
	f("/v1/realtime?model=mock&key="+providerSecret, "")
	f("/v1/realtime?call_id=rtc_1", "", bearer+providerSecret) // names no model: the first route
	if n := len(r.pools.List()); n != 2 {
		t.Errorf("%d pools, want those of the gateway's credential alone", n)
	}
	hit, result := r.connect(bearer + clientKey)
	hit.ExpectText(wiretest.SessionCreated)
	if result != "hit" {
		t.Errorf("a key of the gateway's got a %s", result)
	}
	for where, text := range r.outputs() {
		silent(t, where, text, providerSecret)
	}
	r.stop()
	silent(t, "the log", r.log.String(), providerSecret)
}

func TestWhereAClientSecretIsNotTaken(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 0, taking, keyed())
	secret := bearer + providerSecret
	refused := func(say, request string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(request)
		if _, body := c.ExpectStatus(http.StatusUnauthorized); !strings.Contains(body, `"invalid_api_key"`) || !strings.Contains(body, say) || strings.Contains(body, providerSecret) {
			t.Errorf("answer %s, want one with %q", body, say)
		}
		c.ExpectEOF()
	}
	const say = "set allow_client_secrets on the gateway's route"
	refused(say, wiretest.HSWith("/v1/realtime?model=strict", secret))
	refused(say, wiretest.HSWith("/v1/realtime?model=unknown", secret)) // who has no key is not told which models there are
	refused("unknown to the gateway", wiretest.HSWith("", bearer+"ek-test-is-another-shape"))
	refused("unknown to the gateway", wiretest.HSWith("", bearer+theirs))
	refused("unknown to the gateway", minting(`{"session":{"model":"mock"}}`, secret)) // it mints nothing
	r.refused(http.StatusForbidden, "origin_not_allowed", wiretest.HSWith("", secret, "Origin: https://elsewhere.example"))
	r.refused(http.StatusUnauthorized, "invalid_token", wiretest.HSWith("", bearer+"ek_rtd_forged"))
	r.refused(http.StatusUnauthorized, "invalid_token", wiretest.HSWith("", bearer+"EK_RTD_forged"))
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+"ek_"+strings.Repeat("x", maxOwnCredential)))
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+"ek_two words"))
	if n := up.Dials(); n != 0 {
		t.Errorf("%d dials", n)
	}
	r.refused(http.StatusUnauthorized, "invalid_api_key", wiretest.HSWith("", bearer+"ek_test-ended")) // by the provider: the client's fault
	r.reload(func(c *Config) { c.Routes[0].AllowClientSecrets = false })
	refused(say, wiretest.HSWith("", secret))
	r.stop()
	silent(t, "the log", r.log.String(), providerSecret, "ek_test-ended")
}

// A token of the gateway's is no client secret of the provider: it opens the gateway's session, and stays here.
func TestATokenIsNoClientSecret(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 1, taking, keyed())
	r.awaitAllIdle(2)
	token := r.mint(t, `{"session":{"model":"mock"}}`, bearer+clientKey)
	c, result := r.connect(bearer + token)
	c.ExpectText(wiretest.SessionCreated)
	if result != "hit" {
		t.Errorf("a token got a %s", result)
	}
	r.awaitAllIdle(2) // the replacement was dialled too
	for i := range up.Dials() {
		if head := up.Conn(i + 1).Head(); strings.Contains(head, "ek_rtd_") || !strings.Contains(head, testKey) {
			t.Errorf("the upstream got\n%s", head)
		}
	}
}

// What lets a client in goes nowhere else, whatever it is called there.
func TestATokenIsNotToldToTheProvider(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 0, taking, keyed())
	const token, path = "ek_rtd_minted-here", "/v1/realtime?model=mock"
	f := func(target, credential string, lines ...string) {
		t.Helper()
		r.refused(http.StatusBadRequest, "invalid_parameter", wiretest.HSWith(target, append(lines, bearer+credential)...))
	}
	f(path+"&page="+token, providerSecret)
	f(path+"&page=x&page=x-EK_RTD_minted", providerSecret)
	f(path+"&"+token+"=1", providerSecret)
	f("/v1/realtime?call_id="+token, providerSecret)
	f(path, providerSecret, "OpenAI-Organization: "+token)
	f(path, providerSecret, "Sec-WebSocket-Protocol: realtime, openai-project."+token)
	f(path+"&page="+clientKey, clientKey)
	f(path, clientKey, "OpenAI-Safety-Identifier: "+clientKey)
	if n := up.Dials(); n != 0 {
		t.Errorf("%d dials", n)
	}
	r.session(bearer+providerSecret, "OpenAI-Organization: org-client")
	r.stop()
	silent(t, "the log", r.log.String(), token, clientKey)
}

func TestClientSecretsAreLimitedAsAnybody(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 0, taking, keyed(), func(c *Config) { c.MaxSessions = 1 })
	first := r.session(bearer + providerSecret)
	r.refused(http.StatusServiceUnavailable, "at_capacity", wiretest.HSWith("", bearer+providerSecret))
	first.SendClose(1000, "")
	first.ExpectClose(1000)
	r.await("end of the session", func() bool { return r.sessions.len() == 0 })
	r.session(bearer + providerSecret)
}

// Without a key of the gateway whoever is on this host may use its credential. Who brings a client secret uses that.
func TestAClientSecretWhereNoKeyIsAsked(t *testing.T) {
	up := secretUpstream(t)
	r := startRig(t, up, 0, taking)
	f := func(model, want string) {
		t.Helper()
		dials := up.Dials()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith("/v1/realtime?model="+model, bearer+providerSecret))
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		if head := up.Conn(dials + 1).Head(); !strings.Contains(head, "\r\nAuthorization: Bearer "+want+"\r\n") {
			t.Errorf("%s: the upstream got\n%s", model, head)
		}
	}
	f("mock", providerSecret)
	f("strict", testKey) // a credential means nothing there, this one included
	if err := (Config{Listen: []string{"0.0.0.0:1"}, Admin: DefaultAdmin, Routes: r.current().cfg.Routes}).withDefaults().validate(); err == nil || !strings.Contains(err.Error(), "no client key is configured") {
		t.Errorf("%v: other hosts could come without a key", err)
	}
}
