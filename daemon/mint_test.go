package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// minting renders a request for a token.
func minting(body string, lines ...string) string {
	head := fmt.Sprintf("POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	for _, line := range lines {
		head += line + "\r\n"
	}
	return head + "\r\n" + body
}

// mint returns a token.
func (r *rig) mint(t *testing.T, body string, lines ...string) string {
	t.Helper()
	c := wiretest.Dial(t, r.addr)
	c.SendString(minting(body, lines...))
	h, text := c.ExpectStatus(http.StatusOK)
	c.ExpectEOF()
	var a mintAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil || !strings.HasPrefix(a.Value, "ek_rtd_") || a.Session.Model != "mock" || a.Session.Type != "realtime" {
		t.Fatalf("answer %s: %v", text, err)
	}
	if left := time.Until(time.Unix(a.ExpiresAt, 0)); left < time.Second || left > auth.MaxTTL {
		t.Errorf("ends in %v", left)
	}
	if h.Get("Cache-Control") != "no-store" || h.Get("Connection") != "close" || h.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", h)
	}
	return a.Value
}

const bearer = "Authorization: Bearer "

func TestATokenIsMintedAndUsed(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0, keyed(), func(c *Config) { c.AllowedOrigins = []string{"https://app.example"} })
	withKey := bearer + clientKey

	token := r.mint(t, `{"session":{"type":"realtime","model":"mock"},"expires_after":{"anchor":"created_at","seconds":60}}`, withKey)
	r.session(bearer + token)
	r.refused(http.StatusUnauthorized, "token_used", wiretest.HSWith("", bearer+token))

	token = r.mint(t, `{"origin":"https://app.example","max_uses":2}`, withKey)
	r.refused(http.StatusForbidden, "origin_not_allowed", wiretest.HSWith("", bearer+token))
	browser := []string{"Origin: https://app.example", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key." + token}
	for range 2 {
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith("", browser...))
		if h := c.Expect101(); h.Get("Sec-WebSocket-Protocol") != "realtime" {
			t.Errorf("%v", h)
		}
		c.ExpectText(wiretest.SessionCreated)
	}
	r.refused(http.StatusUnauthorized, "token_used", wiretest.HSWith("", browser...))
	r.refused(http.StatusForbidden, "model_not_allowed", wiretest.HSWith("/v1/realtime?intent=transcription&model=mock", bearer+r.mint(t, "", withKey)))

	for i := range up.Dials() {
		if head := up.Conn(i + 1).Head(); strings.Contains(head, "ek_rtd") || strings.Contains(head, clientKey) {
			t.Errorf("the upstream got\n%s", head)
		}
	}
	r.stop()
	if s := r.log.String(); strings.Contains(s, "ek_rtd_") || strings.Contains(s, clientKey) || !strings.Contains(s, `"token minted"`) {
		t.Errorf("log:\n%s", s)
	}
}

func TestAUseIsSpentOnlyByASession(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Respond("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
	})
	r := startRig(t, up, 0, keyed())
	token := r.mint(t, `{}`, bearer+clientKey)
	for range 2 {
		r.refused(http.StatusBadGateway, "upstream_failed", wiretest.HSWith("", bearer+token))
	}
}

func TestWhatIsNotMinted(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	f := func(status int, code, body string, lines ...string) {
		t.Helper()
		r.refused(status, code, minting(body, lines...))
	}
	withKey := bearer + clientKey
	f(401, "invalid_api_key", `{}`)
	f(401, "invalid_api_key", `{}`, bearer+"sk-test-wrong")
	f(403, "key_required", `{}`, bearer+r.mint(t, `{}`, withKey))
	f(403, "origin_not_allowed", `{}`, withKey, "Origin: https://evil.example")
	f(404, "model_not_found", `{"session":{"model":"other"}}`, withKey)
	for _, body := range []string{
		`{`, `[]`, `{}{}`, `"x"`, `{"unknown":1}`, `{"session":{"instructions":"be safe"}}`, `{"session":{"type":"transcription"}}`,
		`{"session":{"model":1}}`, `{"origin":"https://unlisted.example"}`, `{"max_uses":-1}`, `{"max_uses":1001}`,
		`{"expires_after":{"anchor":"never","seconds":60}}`, `{"expires_after":{"seconds":0}}`, `{"expires_after":{"seconds":7201}}`,
		`{"expires_after":{"seconds":9223372036854775807}}`,
	} {
		f(400, "invalid_request", body, withKey)
	}
	f(413, "body_too_large", strings.Repeat(" ", 17<<10), withKey)
}

func TestWhatIsWrongWithAWishIsSaidInItsOwnWords(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	f := func(body, want string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(minting(body, bearer+clientKey))
		_, text := c.ExpectStatus(http.StatusBadRequest)
		var a struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(text), &a); err != nil || a.Error.Message != want {
			t.Errorf("%.60s: answer %s, want %q", body, text, want)
		}
	}
	const object = "the body must be a JSON object, with any of expires_after, session, preset, origin and max_uses"
	f(`[]`, object)
	f(`1`, object)
	f(`"x"`, object)
	f(`{`, "the body is not whole JSON; correct it, or send none")
	f(`{"max_uses":}`, "the body is not JSON at its byte 13; correct it, or send none")
	f(strings.Repeat("[", 16000), "the body is not JSON at its byte 10001; correct it, or send none")
	f(`{}{}`, "the body goes on behind its JSON object; send one object alone")
	f(`{}}`, "the body goes on behind its JSON object; send one object alone")
	const twice = "the field %q is given more than once, which others may read differently; keep one"
	f(`{"preset":"a","preset":""}`, fmt.Sprintf(twice, "preset"))
	f(`{"preset":"a","max_uses":2,"Preſet":null}`, fmt.Sprintf(twice, "preset"))
	f(`{"session":{"model":"mock","model":"mock"}}`, fmt.Sprintf(twice, "model"))
	f(`{"expires_after":{"seconds":9,"Seconds":8}}`, fmt.Sprintf(twice, "seconds"))
	f(`{"session":{"x":[{"y":[1,"a","a"]},{"y":2,"z":"y"}]}}`, "session.x is not applied by the gateway; leave it out and send it in a session.update, or name a preset")
	f(`{"uses":1}`, `the field "uses" is unknown; leave it out: there are expires_after, session, preset, origin and max_uses`)
	f(`{"max_uses":1e9}`, "max_uses must be a whole number; correct it or leave it out")
	f(`{"origin":1}`, "origin must be a string; correct it or leave it out")
	f(`{"session":1}`, "session must be an object; correct it or leave it out")
	f(`{"expires_after":1}`, "expires_after must be an object; correct it or leave it out")
	f(`{"expires_after":{"seconds":1e3}}`, "expires_after.seconds must be a whole number; correct it or leave it out")
	f(`{"expires_after":{"seconds":7201}}`, "a token cannot live for 2h0m1s; ask for 1s to 2h0m0s")
	f(`{"expires_after":{"seconds":0}}`, "expires_after.seconds is out of range; ask for 1 or more, within the longest life of a token here")
	f(`{"expires_after":{"anchor":"x","seconds":9}}`, "expires_after.anchor can only be created_at; leave it out or name that")
	f(`{"max_uses":1001}`, "a token cannot be for 1001 uses; ask for 1 to 1000")
	f(`{"session":{"type":"transcription"}}`, "session.type can only be realtime; leave it out or name that")
	f(`{"session":{"model":1}}`, "session.model must be a string; name a model")
	f(`{"session":{"instructions":"x"}}`, "session.instructions is not applied by the gateway; leave it out and send it in a session.update, or name a preset")
	f(`{"origin":"https://x"}`, `origin "https://x" is not among the gateway's allowed origins; list it there`)
}

func TestCaseG6TheDataAddressServesOnePlainRequest(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	const more = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	r.refused(401, "invalid_api_key", minting(`{}`, bearer+"sk-test-wrong")+more) // one answer, then FIN
	r.refused(426, "upgrade_required", "GET /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\n\r\n"+more)
	r.refused(405, "method_not_allowed", strings.Replace(minting(`{}`, bearer+clientKey), "/client_secrets", "", 1)+more)
	r.refused(404, "unknown_path", wiretest.HSWith("/v1/realtime/client_secrets?model=mock", bearer+clientKey)+more)
	r.refused(400, "malformed_request", strings.Replace(minting("2\r\n{}\r\n0\r\n\r\n", bearer+clientKey), "Content-Length: 12", "Transfer-Encoding: chunked", 1))
	c := wiretest.Dial(t, r.addr)
	c.SendString(minting(`{}`, bearer+clientKey) + more)
	c.ExpectStatus(200)
	c.ExpectEOF()
}

func TestATokenOfAnOperator(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, keyed())
	s := &daemonService{d: r.Daemon}
	m, err := s.MintToken(t.Context(), &rtdv1.MintTokenRequest{Key: "web", Model: "mock", Ttl: durationpb.New(time.Minute), Uses: 1})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(m.GetExpiresAt().AsTime()); left < 50*time.Second || left > time.Minute {
		t.Errorf("ends in %v", left)
	}
	r.session(bearer + m.GetValue())
	f := func(req *rtdv1.MintTokenRequest) {
		t.Helper()
		if _, err := s.MintToken(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
	f(&rtdv1.MintTokenRequest{Key: "nobody", Model: "mock"})
	f(&rtdv1.MintTokenRequest{Model: "other"})
	f(&rtdv1.MintTokenRequest{Model: "mock", Origin: "https://unlisted.example"})
	f(&rtdv1.MintTokenRequest{Model: "mock", Ttl: durationpb.New(0)})
	f(&rtdv1.MintTokenRequest{Model: "mock", Ttl: durationpb.New(100 * time.Hour)})
	f(&rtdv1.MintTokenRequest{Model: "mock", Uses: 1 << 31})
}
