package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// presetHead begins what asks an upstream for a preset.
const presetHead = `{"type":"session.update","event_id":"event_rtd_preset","session":`

// updated is the answer of an obliging upstream.
func updated(session string) string {
	return `{"type":"session.updated","event_id":"event_2","session":` + session + `}`
}

// obliging is an upstream that does as a preset says, and echoes everything else. It knows what every connection heard first.
type obliging struct {
	*wiretest.Upstream
	mu    sync.Mutex
	first map[int]string // by connection
}

func newObliging(t *testing.T) *obliging {
	o := &obliging{first: map[int]string{}}
	o.Upstream = wiretest.NewUpstream(t, o.serve)
	return o
}

func (o *obliging) serve(c *wiretest.UpstreamConn) {
	c.Timeout = time.Minute
	req := c.ReadRequest()
	if c.TrySend([]byte(wiretest.Switching(req)+string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))) != nil {
		return
	}
	for {
		f, err := c.TryReadFrame()
		if err != nil {
			return
		}
		o.hear(c.N, f)
		session, ok := strings.CutPrefix(string(f.Payload), presetHead)
		f.Masked = false
		switch {
		case ok:
			f.Payload = []byte(updated(strings.TrimSuffix(session, "}")))
		case f.Op == wiretest.Ping:
			f.Op = wiretest.Pong
		}
		if c.TrySend(f.Append(nil)) != nil || f.Op == wiretest.Close {
			return
		}
	}
}

func (o *obliging) hear(n int, f wiretest.Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.first[n]; !ok && f.Op == wiretest.Text {
		o.first[n] = string(f.Payload)
	}
}

// heard is the first text that the connection got.
func (o *obliging) heard(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first[n]
}

const (
	supportSession = `{"type":"realtime","instructions":"Help."}`
	salesSession   = `{"type":"realtime","instructions":"Sell."}`
)

// withPresets configures support and sales, the first of which is the route's own.
func withPresets(c *Config) {
	c.Presets = []dialect.Preset{{Name: "support", Session: []byte(supportSession)}, {Name: "sales", Session: []byte(salesSession)}}
	c.Routes[0].Preset = "support"
}

func asking(query string) string { return wiretest.HSWith("/v1/realtime?model=mock" + query) }

// open opens a client with a request of the test's own.
func (r *rig) openWith(request string) (c *wiretest.Client, result string) {
	r.t.Helper()
	c = wiretest.Dial(r.t, r.addr)
	c.SendString(request)
	return c, c.Expect101().Get("Rtd-Pool")
}

// expectPreset opens a client and expects the frames of a session with that preset, "" for none. An empty wantResult is
// for the first client of a pool that keeps sessions warm: they may be there before it has got to asking for one.
func (r *rig) expectPreset(request, wantResult, session string) *wiretest.Client {
	r.t.Helper()
	c, result := r.openWith(request)
	c.ExpectText(wiretest.SessionCreated)
	if session != "" {
		c.ExpectText(updated(session))
	}
	c.SendText("hello")
	c.ExpectText("hello") // and nothing was between
	if wantResult != "" && result != wantResult {
		r.t.Errorf("the session is a %s, want %s", result, wantResult)
	}
	return c
}

func (r *rig) poolNamed(name string) *pool.Pool {
	for _, p := range r.pools.List() {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

func (r *rig) awaitWarm(name string, n int) {
	r.t.Helper()
	r.await(name, func() bool { p := r.poolNamed(name); return p != nil && p.Stats().Idle == n })
}

func TestAPresetIsAppliedByteForByteBeforeTheClientComes(t *testing.T) {
	created := wiretest.Frame{Fin: true, Op: wiretest.Text, Payload: []byte(wiretest.SessionCreated)}
	answer := slices.Concat( // in two pieces, another event before and a ping between them
		wiretest.Frame{Fin: true, Op: wiretest.Text, Payload: []byte(`{"type":"conversation.created"}`)}.Append(nil),
		wiretest.Frame{Op: wiretest.Text, Payload: []byte(`{"type":"session.updated",`)}.Append(nil),
		wiretest.Frame{Fin: true, Op: wiretest.Ping}.Append(nil),
		wiretest.Frame{Fin: true, Op: wiretest.Continuation, Payload: []byte(`"session":{}}`)}.Append(nil),
	)
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Timeout = time.Minute
		c.SendString(wiretest.Switching(c.ReadRequest()) + string(created.Append(nil)))
		if f, err := c.TryReadFrame(); err != nil || !f.Fin || !f.Masked || f.Op != wiretest.Text || string(f.Payload) != presetHead+supportSession+"}" {
			t.Errorf("the upstream got %+v, %v", f, err)
		}
		c.Send(answer)
		if f, err := c.TryReadFrame(); err != nil || f.Op != wiretest.Pong {
			t.Errorf("the upstream got %+v, %v, want a pong", f, err)
		}
		if f, err := c.TryReadFrame(); err == nil {
			c.Send(wiretest.Frame{Fin: true, Op: wiretest.Text, Payload: f.Payload}.Append(nil))
			c.Echo()
		}
	})
	r := startRig(t, up, 1, withPresets)
	f := func(want string) {
		t.Helper()
		c, result := r.openWith(asking(""))
		c.ExpectBytes(created.Append(nil))
		c.ExpectBytes(slices.Concat(answer[:len(answer)-len(`"session":{}}`)-4], answer[len(answer)-len(`"session":{}}`)-2:])) // all but the ping
		const own = `{"type":"session.update","session":{"instructions":"mine"}}`
		c.SendText(own)
		c.ExpectText(own)
		if result != want {
			t.Errorf("a %s, want %s", result, want)
		}
	}
	r.awaitIdle(1)
	f("hit")
	r.awaitIdle(1)
	if err := r.pool().Resize(0); err != nil {
		t.Fatal(err)
	}
	r.awaitIdle(0)
	f("miss")
}

func TestAClientChoosesItsPreset(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 1, withPresets)
	r.awaitWarm("up/mock+support", 1)
	if up.heard(1) != presetHead+supportSession+"}" {
		t.Errorf("the upstream got %s", up.heard(1))
	}
	r.expectPreset(asking("&preset="), "hit", supportSession)
	r.awaitWarm("up/mock+support", 1)
	r.expectPreset(asking("&preset=support"), "hit", supportSession)
	r.expectPreset(asking("&preset=sales"), "", salesSession)
	r.awaitWarm("up/mock+sales", 1)
	r.expectPreset(asking("&preset=sales"), "hit", salesSession)
	r.expectPreset(asking("&preset=sales&extra=1"), "bypass", salesSession)
	r.expectPreset(asking("&extra=1"), "bypass", supportSession)
	if n := len(r.pools.List()); n != 2 {
		t.Errorf("%d pools, want 2", n)
	}
	for i := range up.Dials() {
		if head := up.Conn(i + 1).Head(); strings.Contains(head, "preset") {
			t.Errorf("the upstream got\n%s", head)
		}
	}
}

func TestAPresetThatThereIsNot(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 0, withPresets)
	c := wiretest.Dial(t, r.addr)
	c.SendString(asking("&preset=supprt"))
	if _, body := c.ExpectStatus(404); !strings.Contains(body, `there is no preset \"supprt\" here; known presets: sales, support`) || !strings.Contains(body, `"preset_not_found"`) {
		t.Error(body)
	}
	r.refused(400, "invalid_parameter", asking("&preset=sales&preset=support"))
	r.reload(func(c *Config) { c.Presets, c.Routes[0].Preset = nil, "" })
	c = wiretest.Dial(t, r.addr)
	c.SendString(asking("&preset=support"))
	if _, body := c.ExpectStatus(404); !strings.Contains(body, `none is configured`) {
		t.Error(body)
	}
	if up.Dials() != 0 {
		t.Errorf("%d dials", up.Dials())
	}
}

func TestWhichSessionsHaveTheRoutesPreset(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 0, withPresets)
	r.expectPreset(asking(""), "miss", supportSession)
	r.expectPreset(asking("&call_id=rtc_1"), "bypass", "")
	r.expectPreset(wiretest.HSWith("/v1/realtime?intent=transcription"), "miss", "")
	r.expectPreset(wiretest.HSWith("/v1/realtime?intent=transcription&preset=sales"), "miss", salesSession)
	r.refused(400, "invalid_parameter", asking("&call_id=rtc_1&preset=sales"))
	if up.Dials() != 4 || up.heard(2) != "hello" || up.heard(3) != "hello" {
		t.Errorf("%d dials; %q, %q", up.Dials(), up.heard(2), up.heard(3))
	}
}

// answering accepts, and answers the first frame with one of its own.
func answering(op byte, payload []byte) func(*wiretest.UpstreamConn) {
	return func(c *wiretest.UpstreamConn) {
		c.Timeout = time.Minute
		c.SendString(wiretest.Switching(c.ReadRequest()) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		if _, err := c.TryReadFrame(); err == nil && payload != nil && c.TrySend(c.Frame(true, op, payload)) == nil {
			c.Echo()
		} else if err == nil {
			_, _ = c.TryReadFrame() // until rtd gives up
		}
	}
}

func TestAPresetThatIsRefused(t *testing.T) {
	f := func(op byte, payload, wantClass, wantCode, wantText string) {
		t.Helper()
		r := startRig(t, wiretest.NewUpstream(t, answering(op, []byte(payload))), 1, withPresets, func(c *Config) { c.Routes[0].Pool.AuthBackoff = time.Hour })
		r.await("failed dial", func() bool { return r.pool().Stats().LastError != nil && r.pool().Stats().Dialing == 0 })
		m := r.poolMessage(r.pool())
		if m.GetLastFailure().GetClass() != wantClass || !strings.Contains(m.GetLastFailure().GetMessage(), `preset "support": `+wantText) {
			t.Errorf("last failure %v", m.GetLastFailure())
		}
		if long := time.Until(r.pool().Stats().BackoffTill) > time.Minute; long != (wantClass == "config") {
			t.Errorf("back-off %v", m.GetBackoff())
		}
		r.refused(http.StatusBadGateway, wantCode, asking(""))
		if s := r.log.String(); wantClass == "config" && !strings.Contains(s, "the preset is put right") || !strings.Contains(s, wantText) {
			t.Errorf("log:\n%s", s)
		}
	}
	const refusal = `{"type":"error","event_id":"e","error":{"type":"invalid_request_error","code":"invalid_value","message":"no such voice","param":"session.audio","event_id":"event_rtd_preset"}}`
	f(wiretest.Text, refusal, "config", "upstream_preset_refused", "upstream sent error invalid_value: no such voice")
	f(wiretest.Close, string(wiretest.ClosePayload(1000, "")), "config", "upstream_preset_refused", "upstream closed the session with 1000")
	f(wiretest.Close, string(wiretest.ClosePayload(1012, "restart")), "other", "upstream_failed", "upstream closed the session with 1012")
}

func TestAPresetThatIsNotAnswered(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, answering(wiretest.Text, nil)), 0, withPresets, func(c *Config) { c.Routes[0].Pool.DialTimeout = 50 * time.Millisecond })
	r.refused(http.StatusGatewayTimeout, "upstream_timeout", asking(""))
	r.refused(http.StatusGatewayTimeout, "upstream_timeout", asking("&extra=1"))
}

func TestALargePresetAndItsAnswerFit(t *testing.T) {
	large := `{"instructions":"` + strings.Repeat("x", dialect.MaxPreset-len(`{"instructions":""}`)) + `"}`
	up := newObliging(t)
	r := startRig(t, up.Upstream, 1, withPresets, func(c *Config) { c.Presets[0].Session = []byte(large) })
	r.awaitIdle(1)
	r.expectPreset(asking(""), "hit", large)
}

func TestAPresetIsNoDoingOfTheClient(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 1, withPresets)
	r.awaitIdle(1)
	c := wiretest.Dial(t, r.addr)
	c.SendString(asking(""))
	id := c.Expect101().Get("Rtd-Session-Id")
	c.ExpectText(wiretest.SessionCreated)
	c.ExpectText(updated(supportSession))
	m := r.sessions.get(id).message()
	if m.GetPreset() != "support" || m.GetTarget() != "up/mock+support" {
		t.Errorf("preset %q of %q", m.GetPreset(), m.GetTarget())
	}
	if m.GetFirstFrame() != nil || m.GetUp().GetFrames() != 0 || m.GetUp().GetBytes() != 0 || m.GetDown().GetMessages() != 2 || m.GetResponses().GetErrors() != 0 {
		t.Errorf("before the client spoke: %v", m)
	}
	if p := r.poolMessage(r.pool()); p.GetPreset() != "support" {
		t.Errorf("the pool has the preset %q", p.GetPreset())
	}
	c.SendClose(1000, "")
	c.ExpectClose(1000)
	r.await("log line", func() bool { return strings.Contains(r.log.String(), `"preset":"support"`) })
	if strings.Contains(r.log.String(), "Help.") {
		t.Errorf("the log holds the preset's session:\n%s", r.log.String())
	}
}

func TestAReloadReplacesThePoolsOfChangedPresetsOnly(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 1, withPresets)
	live := r.expectPreset(asking("&preset=sales"), "", salesSession)
	r.awaitWarm("up/mock+sales", 1)
	r.awaitWarm("up/mock+support", 1)
	sales, support := r.poolNamed("up/mock+sales"), r.poolNamed("up/mock+support")
	if err := sales.Resize(2); err != nil { // by an operator
		t.Fatal(err)
	}
	if changes := r.reload(func(*Config) {}); changes != (Changes{}) {
		t.Errorf("nothing changed: %+v", changes)
	}
	const better = `{"type":"realtime","instructions":"Sell more."}`
	changes := r.reload(func(c *Config) { c.Presets = []dialect.Preset{c.Presets[0], {Name: "sales", Session: []byte(better)}} })
	if changes != (Changes{Added: 1, Removed: 1}) || r.poolNamed("up/mock+support") != support || r.poolNamed("up/mock+sales") == sales {
		t.Errorf("%+v", changes)
	}
	r.awaitWarm("up/mock+sales", 2)
	r.expectPreset(asking("&preset=sales"), "hit", better)
	live.SendText("still")
	live.ExpectText("still")

	changes = r.reload(func(c *Config) { c.Routes[0].Preset = "sales" })
	if changes != (Changes{Removed: 1}) { // what support was chosen for nobody has asked for
		t.Errorf("%+v", changes)
	}
	r.expectPreset(asking(""), "hit", better)
	changes = r.reload(func(c *Config) { c.Presets, c.Routes[0].Preset = c.Presets[:1], "" })
	if changes != (Changes{Added: 1, Removed: 1}) {
		t.Errorf("%+v", changes)
	}
	r.refused(404, "preset_not_found", asking("&preset=sales"))
	r.awaitWarm("up/mock", 2) // the operator's size still
	r.expectPreset(asking(""), "hit", "")
}

func TestATokenIsForAPreset(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 0, withPresets, keyed())
	withKey := bearer + clientKey
	as := func(query, credential string) string {
		return wiretest.HSWith("/v1/realtime?model=mock"+query, bearer+credential)
	}
	token := r.mint(t, `{"preset":"sales","max_uses":9}`, withKey)
	r.expectPreset(as("", token), "miss", salesSession)
	r.expectPreset(as("&preset=sales", token), "miss", salesSession)
	r.refused(403, "preset_not_allowed", as("&preset=support", token))
	r.refused(403, "preset_not_allowed", as("&preset=nothing", token))

	free := r.mint(t, `{"max_uses":9}`, withKey)
	r.expectPreset(as("", free), "miss", supportSession)
	r.expectPreset(as("&preset=sales", free), "miss", salesSession)
	r.refused(404, "preset_not_found", minting(`{"preset":"nothing"}`, withKey))
	r.refused(400, "invalid_request", minting(`{"preset":1}`, withKey))

	s := &daemonService{d: r.Daemon}
	m, err := s.MintToken(t.Context(), &rtdv1.MintTokenRequest{Key: "web", Model: "mock", Preset: "sales"})
	if err != nil {
		t.Fatal(err)
	}
	r.expectPreset(as("", m.GetValue()), "miss", salesSession)
	if _, err := s.MintToken(t.Context(), &rtdv1.MintTokenRequest{Model: "mock", Preset: "nothing"}); err == nil || !strings.Contains(err.Error(), "known presets: sales, support") {
		t.Errorf("minted for a preset that there is not: %v", err)
	}
	r.reload(func(c *Config) { c.Presets = c.Presets[:1] })
	r.refused(404, "preset_not_found", as("", token))
	r.expectPreset(as("", free), "miss", supportSession)
}

func TestAClientsOwnKeyHasPresetsToo(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 1, withPresets, passing)
	request := func(query string) string { return wiretest.HSWith("/v1/realtime?"+query, bearer+theirs) }
	r.expectPreset(request("model=mock"), "bypass", supportSession)
	r.awaitWarm("up/mock+support/own", 1)
	r.expectPreset(request("model=mock"), "hit", supportSession)
	r.expectPreset(request("model=mock&preset=sales"), "bypass", salesSession)
	r.awaitWarm("up/mock+sales/own", 1)
	r.expectPreset(request("model=mock&preset=sales"), "hit", salesSession)
	r.expectPreset(request("intent=transcription"), "bypass", "")
	r.awaitWarm("up/transcription/own", 1)
	r.expectPreset(request("intent=transcription"), "hit", "")
	n := 0
	for i := range up.Dials() {
		if strings.Contains(up.Conn(i+1).Head(), "intent=transcription") {
			n++
		}
	}
	if n < 2 {
		t.Errorf("%d dials for an intent, want that of the first client and those of its pool", n)
	}
}

func TestAClientSecretOfTheProviderHasAPresetByNameOnly(t *testing.T) {
	up := newObliging(t)
	r := startRig(t, up.Upstream, 0, withPresets, keyed(), func(c *Config) { c.Routes[0].AllowClientSecrets = true })
	request := func(query string) string {
		return wiretest.HSWith("/v1/realtime?model=mock"+query, bearer+providerSecret)
	}
	r.expectPreset(request(""), "bypass", "")
	r.expectPreset(request("&preset=sales"), "bypass", salesSession)
}

func TestFaultsOfPresets(t *testing.T) {
	f := func(want string, change func(*Config)) {
		t.Helper()
		cfg := Config{Routes: []Route{{Models: []string{"m"}, Upstream: Upstream{Upstream: dialect.Upstream{Dialect: "openai"}}}}}
		withPresets(&cfg)
		change(&cfg)
		if err := cfg.withDefaults().validate(); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f("<nil>", func(*Config) {})
	f(`route of models m: there is no preset "x"`, func(c *Config) { c.Routes[0].Preset = "x" })
	f(`preset "support": another preset has this name; give each its own`, func(c *Config) { c.Presets[1].Name = "support" })
	f(`preset "a b": its name must be 1 to 64 visible ASCII characters`, func(c *Config) { c.Presets[1].Name = "a b" })
	f(`preset "sales": its session is not a JSON object with at least one member`, func(c *Config) { c.Presets[1].Session = []byte(`{}`) })
	f(`preset "sales": its session is not a JSON object with at least one member`, func(c *Config) { c.Presets[1].Session = []byte(`{"a":NaN}`) })
	f(fmt.Sprintf(`preset "sales": its session has %d bytes; %d are the most`, dialect.MaxPreset+1, dialect.MaxPreset), func(c *Config) {
		c.Presets[1].Session = json.RawMessage(`{"a":"` + strings.Repeat("x", dialect.MaxPreset+1-8) + `"}`)
	})
}
