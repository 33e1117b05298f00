package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

func TestConnectMeasuresEveryPhase(t *testing.T) {
	s := serveSim(t, sim.Config{TLS: true, DialDelay: 20 * time.Millisecond, SessionDelay: 10 * time.Millisecond, ResponseDelay: 40 * time.Millisecond})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CAPEM())
	leg := target(t, "target", strings.Replace(s.URL(), "127.0.0.1", "localhost", 1))
	leg.TLS = &tls.Config{RootCAs: roots}
	r := connect(t, Config{Legs: []Target{leg}, Calls: 20, Concurrency: 4})
	l := r.leg("target")
	if l.OK != 20 || l.Calls != 20 || l.Success != 100 || l.Unclean != 0 || l.Hits != nil {
		t.Errorf("leg %+v", l)
	}
	for phase, low := range map[string]float64{"upgrade": 20, "dial": 20, "ready": 30, "first_audio": 40, "total": 70, "tls": 0.01, "tcp": 0.001, "close": 0.001, "session": 0} {
		if f := r.phase("target", phase); f.Count != 20 || f.Min < low || f.Min > low+slack {
			t.Errorf("%s: %d samples from %v ms, want 20 from %v ms", phase, f.Count, f.Min, low)
		}
	}
	if f := r.phase("target", "session"); f.Max < 10 { // not each: a 101 that was read late shortens it
		t.Errorf("session: no more than %v ms, want 10 ms", f.Max)
	}
	for _, phase := range []string{"ready_hit", "ready_miss", "ready_bypass"} {
		if _, ok := l.Phases[phase]; ok {
			t.Errorf("%s without a gateway", phase)
		}
	}
	if n := s.Stats(); n.ResponsesCompleted+n.ResponsesCancelled > n.Responses || n.Responses != 20 {
		t.Errorf("the upstream saw %+v", n)
	}
}

// A planted fault must be seen, and in the right column.
func TestARelayDelayedByFiveMillisecondsShows(t *testing.T) {
	const delay = 5 * time.Millisecond
	s := serveSim(t, sim.Config{ResponseDelay: 10 * time.Millisecond})
	r := connect(t, Config{Calls: 40, Concurrency: 4, Legs: []Target{
		target(t, LegDirect, s.URL()), target(t, LegGateway, "ws://"+relay(t, s.URL(), delay)), target(t, "fast", "ws://"+relay(t, s.URL(), 0)),
	}})
	for _, phase := range []string{"dial", "ready", "first_audio", "close"} {
		if slow, fast := r.phase(LegGateway, phase).Min, r.phase("fast", phase).Min; slow-fast < 3 || slow-fast > 5+slack {
			t.Errorf("%s: %.2f ms, and %.2f ms through a relay without the delay, want 5 ms more", phase, slow, fast)
		}
	}
	if slow := r.phase(LegGateway, "session").Min; slow > 3 {
		t.Errorf("session: %.2f ms, but both its ends are delayed alike", slow)
	}
	if over := r.leg(LegGateway).Overhead; over == nil || *over < 3 {
		t.Errorf("overhead %v, want 5 ms and more", over)
	}
}

func TestAPoolThatMissesHalfTheTimeShows(t *testing.T) {
	r := connect(t, Config{Legs: []Target{target(t, LegGateway, "ws://"+gateway(t, 2, 30*time.Millisecond))}, Calls: 40, Concurrency: 4})
	l := r.leg(LegGateway)
	if l.OK != 40 || l.Hits == nil || *l.Hits != 50 || l.Pool["hit"] != 20 || l.Pool["miss"] != 20 {
		t.Errorf("leg %+v", l)
	}
	if hit, miss := r.phase(LegGateway, "ready_hit"), r.phase(LegGateway, "ready_miss"); hit.Count != 20 || miss.Count != 20 || hit.Min > 20 || miss.Min < 30 || miss.Min > 30+slack {
		t.Errorf("ready: from %.2f ms in %d hits, from %.2f ms in %d misses, want only the misses above 30 ms", hit.Min, hit.Count, miss.Min, miss.Count)
	}
	if l.Quick < 50 {
		t.Errorf("%v%% of the sessions under 1 ms, but the wait is before the 101", l.Quick)
	}
}

func TestAnUpstreamThatFailsTenPercentShows(t *testing.T) {
	f := func(rule, cause string, slow bool) {
		t.Helper()
		parsed, err := sim.ParseRule(rule + ",rate=0.1")
		if err != nil {
			t.Fatal(err)
		}
		s := serveSim(t, sim.Config{Fail: []sim.Rule{parsed}})
		cfg := Config{Legs: []Target{target(t, "target", s.URL())}, Calls: 30, Concurrency: 3}
		if slow {
			cfg.Timeout = 300 * time.Millisecond
		}
		r := connect(t, cfg)
		l := r.leg("target")
		if l.Success != 90 || l.OK != 27 || len(l.Failures) != 1 || l.Failures[cause] != 3 {
			t.Errorf("%s: success %v%%, failures %v, want 3 of %q", rule, l.Success, l.Failures, cause)
		}
		if n := r.phase("target", "total").Count; n != 27 {
			t.Errorf("%s: percentiles over %d calls, want the 27 that succeeded", rule, n)
		}
		if r.Judge(90, nil); len(r.Failed) > 0 {
			t.Errorf("%s: 90%% are enough, but %q", rule, r.Failed)
		}
	}
	f("status=503", "dial: status 503 Service Unavailable", false)
	f("close=3000:invalid_request_error.invalid_api_key", "session: closed with 3000", false)
	f("reset,after=0s", "session: connection reset by peer", false)
	f("fin", "dial: other", false)
	f("hang", "dial: timeout", true)
}

func TestFailuresAreNamedByCause(t *testing.T) {
	f := func(url, cause string) {
		t.Helper()
		r := connect(t, Config{Legs: []Target{target(t, "target", url)}, Calls: 2, Concurrency: 1, Timeout: 2 * time.Second})
		if l := r.leg("target"); l.OK != 0 || l.Failures[cause] != 2 {
			t.Errorf("%s: %v, want %q", url, l.Failures, cause)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	f("ws://"+ln.Addr().String(), "dial: connection refused")
	f("wss://"+strings.TrimPrefix(serveSim(t, sim.Config{TLS: true}).URL(), "wss://"), "dial: certificate of an authority that is not trusted here; --ca names it")
	f("ws://"+listen(t, func(c net.Conn) { _, _ = c.Write([]byte("no HTTP at all\r\n\r\n")) }), "dial: invalid answer to the upgrade")
	f("ws://host.invalid", "dial: host not found")
	silent := serveSim(t, sim.Config{SessionDelay: time.Minute})
	r := connect(t, Config{Legs: []Target{target(t, "target", silent.URL())}, Calls: 1, Concurrency: 1, Timeout: 50 * time.Millisecond})
	if l := r.leg("target"); l.Failures["session: timeout"] != 1 {
		t.Errorf("a silent upstream: %v", l.Failures)
	}
}

func TestAnErrorEventFailsTheCallByItsCode(t *testing.T) {
	s := serveSim(t, sim.Config{})
	leg := target(t, "target", s.URL())
	leg.URL.RawQuery = "intent=transcription" // gives no responses
	r := connect(t, Config{Legs: []Target{leg}, Calls: 1, Concurrency: 1})
	if l := r.leg("target"); l.Failures["first audio: error event invalid_value"] != 1 {
		t.Errorf("failures %v", l.Failures)
	}
}

func TestKeysGoOutAndStayOutOfTheReport(t *testing.T) {
	const key = "sk-test-bench"
	s := serveSim(t, sim.Config{RequireKey: key})
	byHeader, byProtocol := target(t, "header", s.URL()), target(t, "protocol", s.URL())
	byHeader.Header = http.Header{"Authorization": {"Bearer " + key}}
	byProtocol.Protocols = []string{"realtime", "openai-insecure-api-key." + key}
	byProtocol.URL.RawQuery += "&key=" + key
	r := connect(t, Config{Legs: []Target{byHeader, byProtocol}, Calls: 2, Concurrency: 2})
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Legs[0].OK != 2 || r.Legs[1].OK != 2 {
		t.Errorf("not let in: %v, %v", r.Legs[0].Failures, r.Legs[1].Failures)
	}
	if strings.Contains(string(data), key) {
		t.Errorf("the key is in the report: %s", data)
	}
}

func TestLegsTakeTurnsAndRepeatsAreCompared(t *testing.T) {
	s := serveSim(t, sim.Config{})
	cfg := Config{Legs: []Target{target(t, "a", s.URL()), target(t, "b", s.URL()), target(t, "c", s.URL())}, Calls: 5, Concurrency: 2, Warmup: 1, Repeat: 3}
	r := connect(t, cfg)
	for _, l := range r.Legs {
		if l.OK != 15 {
			t.Errorf("%s: %d calls counted, want 3 times 5", l.Name, l.OK)
		}
		if f := l.Phases["ready"]; f.Spread == nil || f.Count != 15 || len(f.Curve) != 101 {
			t.Errorf("%s: ready %+v, want a spread over the repeats and its curve", l.Name, f)
		}
	}
	if n := s.Stats().Accepted; n != 3*(1+15) {
		t.Errorf("%d dials, want the warm-up as well", n)
	}
}

func TestAnInterruptedRunReportsWhatWasMeasured(t *testing.T) {
	s := serveSim(t, sim.Config{})
	slow := serveSim(t, sim.Config{ResponseDelay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan struct{}, 1)
	go func() { <-told; cancel() }()
	start := time.Now()
	r, err := Connect(ctx, Config{
		Legs: []Target{target(t, "fast", s.URL()), target(t, "slow", slow.URL())}, Calls: 10, Concurrency: 20, Timeout: time.Minute,
		Progress: func(done, total int) {
			if total == 20 && done >= 10 {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		},
	})
	if err != nil || time.Since(start) > 20*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
	if !r.Interrupted || r.leg("fast").OK != 10 || r.leg("slow").Calls != 0 {
		t.Errorf("interrupted %v, %d fast calls, %d slow ones; want the calls in flight dropped", r.Interrupted, r.leg("fast").OK, r.leg("slow").Calls)
	}
}

func TestAnOpenLoopCountsFromTheTimeACallWasDue(t *testing.T) {
	s := serveSim(t, sim.Config{ResponseDelay: 100 * time.Millisecond})
	r := connect(t, Config{Legs: []Target{target(t, "target", s.URL())}, Calls: 10, Concurrency: 1, Rate: 100})
	// One worker makes ten calls a second of a hundred that are due.
	if f := r.phase("target", "total"); f.Max < 900 {
		t.Errorf("the last total is %v ms, want the wait for nine calls of 100 ms in it", f.Max)
	}
	if f := r.phase("target", "first_audio"); f.Min > 100+slack {
		t.Errorf("the wait is in first_audio: %v ms", f.Max)
	}
	if r.Generator.Queued.Count != 9 {
		t.Errorf("%d calls waited for the worker, want 9", r.Generator.Queued.Count)
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	one := []Target{target(t, "a", "ws://127.0.0.1:1")}
	f := func(cfg Config) {
		t.Helper()
		if _, err := Connect(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), ErrConfig.Error()) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	f(Config{})
	f(Config{Legs: append(one, one...)})
	f(Config{Legs: one, Calls: -1})
	f(Config{Legs: one, Rate: -1})
	f(Config{Legs: one, Timeout: -1})
}

func TestEndpoint(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		u, err := Endpoint(raw, "m")
		switch {
		case want == "":
			if err == nil {
				t.Errorf("%q is taken as %s", raw, u)
			}
		case err != nil || u.String() != want:
			t.Errorf("%q: %v, %v, want %s", raw, u, err, want)
		}
	}
	f("ws://h:1", "ws://h:1/v1/realtime?model=m")
	f("https://h/v1/", "wss://h/v1/realtime?model=m")
	f("http://h/openai", "ws://h/openai/realtime?model=m")
	f("wss://h/v1/realtime?model=x", "wss://h/v1/realtime?model=x")
	f("wss://h/openai/realtime?api-version=1&deployment=d", "wss://h/openai/realtime?api-version=1&deployment=d")
	f("wss://h/v1/realtime?intent=transcription", "wss://h/v1/realtime?intent=transcription")
	f("h:4001", "")
	f("ftp://h", "")
	f("ws://", "")
	f("ws://h\x00", "")
}

func TestAReportSurvivesItsJSON(t *testing.T) {
	s := serveSim(t, sim.Config{})
	r := connect(t, Config{Legs: []Target{target(t, LegDirect, s.URL()), target(t, LegGateway, s.URL())}, Calls: 3, Repeat: 2})
	r.Judge(99, nil)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Table(), r.Table()) || !reflect.DeepEqual(back.Notes(), r.Notes()) {
		t.Errorf("it reads differently:\n%v\n%v", back.Table(), r.Table())
	}
	if back.Schema != Schema || back.Kind != "connect" || back.Host.CPUs == 0 || back.Started.IsZero() {
		t.Errorf("heading %+v", back)
	}
}
