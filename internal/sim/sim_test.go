package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/sim"
)

func TestSessionCreated(t *testing.T) {
	f := func(name string, cfg sim.Config, query string, check func(t *testing.T, e event)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			s := start(t, cfg)
			p, err := tryConnect(t, s, query, nil)
			if err != nil {
				t.Fatal(err)
			}
			e := p.expect("session.created")
			if id := e.str("session.id"); len(id) != len("sess_")+21 || !strings.HasPrefix(id, "sess_") {
				t.Errorf("session.id is %q", id)
			}
			if id := e.str("event_id"); len(id) != len("event_")+21 {
				t.Errorf("event_id is %q", id)
			}
			check(t, e)
		})
	}
	f("ga", sim.Config{}, "?model=m-1", func(t *testing.T, e event) {
		if e.str("session.object") != "realtime.session" || e.str("session.type") != "realtime" || e.str("session.model") != "m-1" {
			t.Errorf("got %s", e.raw)
		}
		if e.get("session.expires_at") != nil {
			t.Errorf("expires_at without ExpiresIn: %s", e.raw)
		}
		if e.str("session.audio.input.turn_detection.type") != "server_vad" {
			t.Errorf("turn detection is not on by default: %s", e.raw)
		}
	})
	f("expiry", sim.Config{ExpiresIn: time.Hour}, "?model=m", func(t *testing.T, e event) {
		left := time.Until(time.Unix(int64(e.num("session.expires_at")), 0))
		if left < time.Hour-time.Minute || left > time.Hour {
			t.Errorf("expires_at is %v away, want an hour", left)
		}
	})
	f("beta", sim.Config{BetaNames: true}, "?model=m", func(t *testing.T, e event) {
		if e.str("session.modalities.0") != "text" || e.str("session.input_audio_format") != "pcm16" || e.get("session.audio") != nil {
			t.Errorf("not the beta shape: %s", e.raw)
		}
	})
	f("tls", sim.Config{TLS: true}, "?model=m", func(*testing.T, event) {})
	f("deployment", sim.Config{}, "?api-version=1&deployment=d", func(t *testing.T, e event) {
		if e.str("session.model") != "d" {
			t.Errorf("got %s", e.raw)
		}
	})
	f("transcription", sim.Config{}, "?intent=transcription", func(t *testing.T, e event) {
		if e.str("session.type") != "transcription" || e.get("session.model") != nil {
			t.Errorf("got %s", e.raw)
		}
	})
}

func TestDelays(t *testing.T) {
	const dial, session, response = 30 * time.Millisecond, 40 * time.Millisecond, 50 * time.Millisecond
	s := start(t, sim.Config{DialDelay: dial, SessionDelay: session, ResponseDelay: response, AudioMS: 200, ChunkMS: 20, RealtimeFactor: 2})
	atLeast := func(what string, since time.Time, want time.Duration) {
		t.Helper()
		if got := time.Since(since); got < want {
			t.Errorf("%s took %v, want at least %v", what, got, want)
		}
	}
	t0 := time.Now()
	p := connect(t, s)
	atLeast("dial", t0, dial)
	// What is sent before session.created is answered behind it.
	p.send(`{"type":"session.update","session":{"instructions":"early"}}`)
	p.expect("session.created")
	atLeast("session", t0, dial+session)
	if e := p.expect("session.updated"); e.str("session.instructions") != "early" {
		t.Errorf("got %s", e.raw)
	}
	t1 := time.Now()
	p.send(respond)
	p.expect("response.created")
	p.until("response.output_audio.delta")
	atLeast("response", t1, response)
	p.until("response.output_audio.done")
	atLeast("200 ms at twice the speed", t1, response+90*time.Millisecond) // the last of ten pieces is due at 90 ms
}

func TestPeerLeavingDuringSessionDelayIsNoticed(t *testing.T) {
	s := start(t, sim.Config{SessionDelay: time.Hour})
	p := connect(t, s)
	eventually(t, "the session is open", func() bool { return s.Stats().Open == 1 })
	_ = p.conn.Close()
	eventually(t, "the session has ended", func() bool { return s.Stats().Open == 0 })
}

func TestRefusals(t *testing.T) {
	f := func(name string, cfg sim.Config, query string, header http.Header, status int, code string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			s := start(t, cfg)
			req, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(s.URL(), "ws")+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Connection": {"keep-alive", "Upgrade"}, "Upgrade": {"WebSocket"}, "Sec-Websocket-Version": {"13"},
				"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
			for k, v := range header {
				req.Header[k] = v
			}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != status {
				t.Fatalf("status %s, want %d", resp.Status, status)
			}
			if status == http.StatusSwitchingProtocols {
				return
			}
			var body struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Error.Code != code || body.Error.Message == "" || body.Error.Type == "" {
				t.Errorf("body %+v, error %v, want code %s", body, err, code)
			}
			if st := s.Stats(); st.Dials != 1 || st.Refused != 1 || st.Handshaking != 0 || st.Accepted != 0 {
				t.Errorf("stats %+v", st)
			}
		})
	}
	key := sim.Config{RequireKey: "sk-test-right"}
	const model = "?model=m"
	f("no key", key, model, nil, 401, "invalid_api_key")
	f("wrong key", key, model, http.Header{"Authorization": {"Bearer sk-test-wrong"}}, 401, "invalid_api_key")
	f("bearer", key, model, http.Header{"Authorization": {"bearer sk-test-right"}}, 101, "")
	f("api-key", key, model, http.Header{"Api-Key": {"sk-test-right"}}, 101, "")
	f("subprotocol", key, model, http.Header{"Sec-Websocket-Protocol": {"realtime, openai-insecure-api-key.sk-test-right"}}, 101, "")
	f("no model", sim.Config{}, "", nil, 400, "missing_required_parameter")
	f("call", sim.Config{}, "?call_id=rtc_1", nil, 101, "")
	f("no upgrade", sim.Config{}, model, http.Header{"Connection": {"notupgrade"}}, 426, "upgrade_required")
	f("version", sim.Config{}, model, http.Header{"Sec-Websocket-Version": {"8"}}, 426, "upgrade_required")
	f("key length", sim.Config{}, model, http.Header{"Sec-Websocket-Key": {"c2hvcnQ="}}, 400, "invalid_value")
}

func TestSubprotocolNeverGivesAKeyBack(t *testing.T) {
	f := func(offer []string, want string) {
		t.Helper()
		s := start(t, sim.Config{})
		d := ws.Dialer{Protocols: offer}
		conn, _, hs, err := d.Dial(context.Background(), s.URL()+"?model=m")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if hs.Protocol != want {
			t.Errorf("offered %q: chose %q, want %q", offer, hs.Protocol, want)
		}
	}
	f([]string{"openai-insecure-api-key.sk-test-a", "x", "realtime"}, "realtime")
	f([]string{"openai-insecure-api-key.sk-test-a", "x"}, "x")
	f([]string{"openai-insecure-api-key.sk-test-a"}, "")
}

func TestMaxSessions(t *testing.T) {
	s := start(t, sim.Config{MaxSessions: 2})
	first := open(t, s)
	open(t, s)
	var status ws.StatusError
	if _, err := tryConnect(t, s, "?model=m", nil); !errors.As(err, &status) || status != 429 {
		t.Fatalf("third session: %v, want 429", err)
	}
	_ = first.conn.Close()
	eventually(t, "one has left", func() bool { return s.Stats().Open == 1 })
	open(t, s)
	if st := s.Stats(); st.PeakOpen != 2 || st.PeakTotal != 3 || st.Refused != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestExpiredSessionIsClosed(t *testing.T) {
	s := start(t, sim.Config{ExpiresIn: 50 * time.Millisecond})
	p := open(t, s)
	if code, reason := p.closed(); code != 1001 || !strings.Contains(reason, "maximum duration of 50ms") {
		t.Errorf("closed with %d %q", code, reason)
	}
}

func TestStatsTellSessionsApart(t *testing.T) {
	s := start(t, sim.Config{AudioMS: 200})
	f := func(model, key string) *peer {
		t.Helper()
		p, err := tryConnect(t, s, "?model="+model, http.Header{"Authorization": {"Bearer " + key}, "Openai-Beta": {"realtime=v1"}})
		if err != nil {
			t.Fatal(err)
		}
		p.expect("session.created")
		return p
	}
	a, b := f("m-1", "sk-test-one"), f("m-2", "sk-test-two")
	a.send(say("hello"))
	a.send(respond)
	a.until("response.done")
	b.frame(ws.NewCloseFrame(ws.NewCloseFrameBody(4001, "bye")))
	if code, _ := b.closed(); code != 4001 {
		t.Errorf("Close answered with %d, want 4001", code)
	}
	b.eof()
	eventually(t, "the second has ended", func() bool { return s.Stats().Open == 1 })

	resp, err := http.Get("http" + strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws"), "/v1/realtime") + "/sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), "sk-test") {
		t.Error("the statistics hold a credential")
	}
	var st sim.Stats
	if err := json.Unmarshal(body, &st); err != nil {
		t.Fatal(err)
	}
	if st.Dials != 2 || st.Accepted != 2 || st.Open != 1 || st.Responses != 1 || st.ResponsesCompleted != 1 || st.ClientMessages != 2 || st.AudioDeltas != 2 {
		t.Errorf("counts: %s", body)
	}
	if len(st.Connections) != 2 {
		t.Fatalf("connections: %s", body)
	}
	one, two := st.Connections[0], st.Connections[1]
	if one.Model != "m-1" || one.Credential != sim.Fingerprint("sk-test-one") || !one.Open || one.ClientMessages != 2 || one.Responses != 1 || one.Beta != "realtime=v1" {
		t.Errorf("first: %+v", one)
	}
	if two.Model != "m-2" || two.Credential != sim.Fingerprint("sk-test-two") || two.Open || two.CloseCode != 4001 || two.SessionID == one.SessionID {
		t.Errorf("second: %+v", two)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	s := start(t, sim.Config{AudioMS: 60_000, RealtimeFactor: 1})
	idle, talking := open(t, s), open(t, s)
	talking.send(respond)
	talking.until("response.output_audio.delta")
	done := make(chan struct{})
	go func() { s.Close(); close(done) }()
	for _, p := range []*peer{idle, talking} {
		if code, _ := p.closed(); code != 1001 {
			t.Errorf("closed with %d, want 1001", code)
		}
		p.frame(ws.NewCloseFrame(nil))
	}
	<-done
	if st := s.Stats(); st.Open != 0 || st.ResponsesCompleted != 0 {
		t.Errorf("stats %+v", st)
	}
	if _, err := tryConnect(t, s, "?model=m", nil); err == nil {
		t.Error("a closed server let a session in")
	}
}

func TestCloseDoesNotWaitForAPeerThatReadsNothing(t *testing.T) {
	s := start(t, sim.Config{AudioMS: 600_000, ChunkMS: 1000, DialDelay: time.Millisecond})
	p := open(t, s)
	p.send(respond) // tens of megabytes that are not read
	eventually(t, "the response is under way", func() bool { return s.Stats().AudioDeltas > 10 })
	begun := time.Now()
	s.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL() != "" || s.Addr() != nil {
		t.Error("an address before listening")
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	p := open(t, s)
	cancel()
	if code, _ := p.closed(); code != 1001 {
		t.Errorf("closed with %d", code)
	}
	_ = p.conn.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestIdleSessionsCostOneGoroutineEach(t *testing.T) {
	const sessions = 200
	s := start(t, sim.Config{ExpiresIn: time.Hour})
	before := runtime.NumGoroutine()
	for range sessions {
		open(t, s)
	}
	eventually(t, "only the sessions' own goroutines are left", func() bool { return runtime.NumGoroutine() <= before+sessions })
}

func TestConfigErrors(t *testing.T) {
	f := func(want string, cfg sim.Config) {
		t.Helper()
		if _, err := sim.New(cfg); !errors.Is(err, sim.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cfg, err, want)
		}
	}
	f("DialDelay", sim.Config{DialDelay: -1})
	f("AudioMS", sim.Config{AudioMS: -1})
	f("ChunkMS", sim.Config{ChunkMS: 1 << 20})
	f("RealtimeFactor", sim.Config{RealtimeFactor: -1})
	f("MaxSessions", sim.Config{MaxSessions: -1})
	f("failure rule 1", sim.Config{Fail: []sim.Rule{{}}})
}
