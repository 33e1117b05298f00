package daemon

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rtd-project/rtd/cmd/rtctl/command"
	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// The secrets of these tests. The opaque ones have no shape by which they could be told from other words.
const (
	opaqueUpstream = "opaque+upstream/credential"
	opaqueClient   = "opaque-credential-of-a-client"
)

// outputs gathers everything that people and programs can read of a daemon.
func (r *rig) outputs() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	socket := r.current().cfg.Socket
	for _, line := range []string{"status", "stats", "pool list", "pool show", "session list"} {
		for _, format := range []string{"table", "json"} {
			var out bytes.Buffer
			args := append([]string{"--endpoint", socket, "-o", format}, strings.Fields(line)...)
			command.Execute(args, &out, &out)
			all["rtctl -o "+format+" "+line] = out.String()
		}
	}
	for _, s := range r.sessions.list() {
		var out bytes.Buffer
		command.Execute([]string{"--endpoint", socket, "session", "show", s.id, "-o", "json"}, &out, &out)
		all["rtctl session show"] += out.String()
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/"} {
		resp, err := http.Get("http://" + r.AdminAddr().String() + path)
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		all[path] = fmt.Sprint(resp.Header) + string(body)
	}
	return all
}

// silent fails if an output has a secret in it, plain or in any encoding that would give it away.
func silent(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, s := range append(secrets, "sk-test-", "ek_rtd_") {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s holds %q: …%s…", where, form, text[max(0, i-200):min(len(text), i+200)])
				return
			}
		}
	}
}

func TestCaseI1NoKeyIsSeenAnywhere(t *testing.T) {
	var answer atomic.Value // what the upstream does with the next sessions
	answer.Store("ready")
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		mode := answer.Load()
		if mode == "ready" {
			wiretest.Ready(c)
			return
		}
		req := c.ReadRequest()
		// An upstream can give away what it was sent: the gateway's credential, or a client's own.
		upstreamSays := "no: sk-test-QUERY and " + strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ") + " are bad"
		switch mode {
		case "401":
			c.SendString(fmt.Sprintf("HTTP/1.1 401 Unauthorized\r\nX-Why: %s\r\nContent-Length: %d\r\n\r\n%s", upstreamSays, len(upstreamSays), upstreamSays))
			_, _ = c.TryReadFrame() // until rtd hangs up
		case "error":
			c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(`{"type":"error","error":{"code":"invalid_api_key","message":"`+upstreamSays+`"}}`))))
			_, _ = c.TryReadFrame()
		case "close":
			c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
			_, _ = c.TryReadFrame() // a client is there
			_ = c.TrySend(c.Frame(true, wiretest.Close, wiretest.ClosePayload(4001, upstreamSays)))
			_, _ = c.TryReadFrame()
		}
	})
	f := func(name string, configure func(*Config)) {
		t.Run(name, func(t *testing.T) {
			answer.Store("ready")
			r := startRig(t, up, 1, func(c *Config) {
				c.Routes[0].Upstream.Credential = opaqueUpstream
				c.Auth.Tokens.Secret = []byte("opaque-secret-that-signs-the-tokens-here")
				c.AllowedOrigins = []string{"https://app.example"}
				configure(c)
			})
			shout(t, r)
			for _, mode := range []string{"401", "error", "close", "ready"} {
				answer.Store(mode)
				for _, p := range r.pools.List() {
					p.Recycle() // idle sessions of the pool die and fail in that way too
				}
				shout(t, r)
			}
			for where, text := range r.outputs() {
				silent(t, where, text, opaqueUpstream, opaqueClient, "opaque-secret-that")
			}
			r.stop()
			silent(t, "the log", r.log.String(), opaqueUpstream, opaqueClient, "opaque-secret-that")
			if n := len(r.log.String()); n < 1000 {
				t.Errorf("a log of %d bytes says nothing", n)
			}
		})
	}
	f("open", func(*Config) {})
	f("keys", func(c *Config) {
		c.Auth.Keys = []auth.Key{{Name: "web", Digest: auth.DigestOf(opaqueClient)}, {Name: "shaped", Digest: auth.DigestOf("sk-test-QUERY")}}
	})
	f("pass-through", passing)
}

// shout puts keys into every place of a request and of a session.
func shout(t *testing.T, r *rig) {
	for _, key := range []string{"sk-test-QUERY", opaqueClient} {
		esc := url.QueryEscape(key)
		for _, request := range []string{
			wiretest.HSWith("/v1/realtime?model=mock&api_key=" + esc),
			wiretest.HSWith("/v1/realtime?model=mock&key=" + esc),
			wiretest.HSWith("/v1/realtime?model=mock&access_token=" + esc),
			wiretest.HSWith("/v1/realtime?model=mock&api-key=" + esc),
			wiretest.HSWith("/v1/realtime?model="+esc, bearer+key),
			wiretest.HSWith("/v1/realtime?call_id="+esc, bearer+key),
			wiretest.HSWith("/v1/realtime?model=mock&other="+esc, bearer+key),
			wiretest.HSWith("/v1/realtime?model=mock&"+esc+"=x", bearer+key),
			wiretest.HSWith("/v1/"+esc+"?model=mock", bearer+key),
			wiretest.HSWith("http://"+esc+"@x/v1/realtime?model=mock", bearer+key),
			wiretest.HSWith("http://user:"+esc+"@x/v1/realtime?model=mock", bearer+key),
			wiretest.HSWith("/v1/realtime?model=mock", bearer+key),
			wiretest.HSWith("", "Api-Key: "+key),
			wiretest.HSWith("", "X-Goog-Api-Key: "+key),
			wiretest.HSWith("", bearer+key, "Cookie: session="+key, "X-Request-Id: "+key, "OpenAI-Organization: "+key),
			wiretest.HSWith("", bearer+key, "Origin: https://"+esc),
			wiretest.HSWith("", bearer+key, "OpenAI-Token: "+key),
			wiretest.HSWith("", bearer+key, key+": x"),
			wiretest.HSWith("", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key."+key),
			wiretest.HSWith("", "Sec-WebSocket-Protocol: openai-insecure-api-key."+key+", "+key),
			wiretest.HSWith("", bearer+"ek_rtd_"+key),
			"GET /" + esc + " HTTP/1.1\r\nHost: " + esc + "\r\n\r\n",
			key + " / HTTP/1.1\r\n\r\n",
			minting(`{}`, bearer+key),
			minting(`{"`+key+`":1}`, bearer+key),
			minting(`{"session":{"model":"`+key+`"}}`, bearer+key),
			minting(`{"origin":"`+key+`"}`, bearer+key),
		} {
			speak(t, r, request, key)
		}
	}
}

// speak sends a request and, if it opens a session, messages and a Close with the key in them.
func speak(t *testing.T, r *rig, request, key string) {
	t.Helper()
	c := wiretest.Dial(t, r.addr)
	defer c.Close()
	c.SendString(request)
	head, err := c.TryReadHead()
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		return
	}
	if strings.Contains(head, key) {
		t.Errorf("the 101 holds the key:\n%s", head)
	}
	_ = c.TrySend(c.Frame(true, wiretest.Text, []byte(`{"type":"`+key+`"}`)))
	_ = c.TrySend(c.Frame(true, wiretest.Close, wiretest.ClosePayload(4000, "bye "+key)))
	for {
		frame, err := c.TryReadFrame()
		if err != nil {
			return
		}
		if frame.Op == wiretest.Close {
			silent(t, "a Close reason", string(frame.Payload), opaqueUpstream)
			return
		}
	}
}
