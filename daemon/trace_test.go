package daemon

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/trace"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	traceparent = "traceparent: 00-" + clientTrace + "-" + clientSpan
)

// traced sends the traces of all sessions to a receiver.
func traced(receiver *wiretest.Receiver) func(*Config) {
	return func(c *Config) {
		c.Traces = Traces{Endpoint: receiver.URL(), SampleRatio: 1}
		c.Grace = time.Minute // a stop does not take longer for it, and what it sends has all the time
	}
}

// finish ends a session in an orderly way and waits until it is over.
func (r *rig) finish(c *wiretest.Client) {
	r.t.Helper()
	n := r.finished.Load()
	c.SendClose(1000, "")
	c.ExpectClose(1000)
	c.Conn.Close()
	r.await("end of a session", func() bool { return r.finished.Load() > n })
}

// below are the names of the spans right below one.
func below(receiver *wiretest.Receiver, parent wiretest.Span) (names []string) {
	for _, s := range receiver.Spans() {
		if s.Parent() == parent.ID() {
			names = append(names, s.Name)
		}
	}
	return names
}

func names(list ...string) string { return strings.Join(list, " ") }

func TestTheTracesOfAHitAMissAndABypass(t *testing.T) {
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewReceiver(t)
	r := startRig(t, up, 1, traced(receiver))
	r.awaitIdle(1)
	r.pool().Pause()
	var checks []func()
	f := func(result, target string, children ...string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith(target, traceparent+"-01", "tracestate: vendor=x"))
		h := c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		if got := h.Get("Rtd-Pool"); got != result {
			t.Fatalf("%s, want %s", got, result)
		}
		c.SendText("hello")
		c.ExpectText("hello")
		r.finish(c)
		checks = append(checks, func() {
			s := sessionSpan(receiver, h.Get(headerSession))
			if s.Span == nil {
				t.Fatalf("%s: no trace", result)
			}
			checkSession(t, s, result)
			if got := names(below(receiver, s)...); got != names(children...) {
				t.Errorf("%s: below it %s, want %s", result, got, names(children...))
			}
			checkDial(t, receiver, s)
		})
	}
	before := time.Now()
	f("hit", "", "rtd.handshake", "rtd.pool_wait")
	f("miss", "", "rtd.handshake", "rtd.pool_wait", "rtd.dial")
	f("bypass", "/v1/realtime?model=mock&voice=x", "rtd.handshake", "rtd.dial")
	r.stop()
	for _, check := range checks {
		check()
	}
	for _, s := range receiver.Spans() {
		// The clocks that the times are made of may be set while the test runs, by little.
		if s.Start().Before(before.Add(-time.Second)) || s.End().Before(s.Start()) || s.End().After(time.Now().Add(time.Second)) {
			t.Errorf("%s: from %v to %v", s.Name, s.Start(), s.End())
		}
	}
	if log := r.log.String(); strings.Count(log, `"trace":"`+clientTrace) != len(checks) {
		t.Errorf("the lines of the sessions do not name the trace:\n%s", log)
	}
}

// checkSession looks at the root of a trace.
func checkSession(t *testing.T, s wiretest.Span, result string) {
	t.Helper()
	if s.Trace() != clientTrace || s.Parent() != clientSpan || s.TraceState != "vendor=x" {
		t.Errorf("%s: the span is below %s in %s (%s), want that of the client", result, s.Parent(), s.Trace(), s.TraceState)
	}
	for key, want := range map[string]any{
		"rtd.pool.result": result, "rtd.ended_by": "client", "rtd.close.code": int64(1000), "gen_ai.request.model": "mock",
		"gen_ai.provider.name": "compatible", "rtd.target": "up/mock", "rtd.upstream.session.id": "sess_1", "http.response.status_code": int64(101), "url.path": "/v1/realtime",
		"network.peer.address": "127.0.0.1", "error.type": nil, "rtd.frames.up": int64(2), // with the Close
	} {
		if got := s.Attribute(key); got != want {
			t.Errorf("%s: %s = %v, want %v", result, key, got, want)
		}
	}
	if s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET || names(s.Marks()...) != "ready first_frame" {
		t.Errorf("%s: %v, %v", result, s.Status, s.Marks())
	}
}

// checkDial looks at the dial below the root of a trace, if there is one.
func checkDial(t *testing.T, receiver *wiretest.Receiver, root wiretest.Span) {
	t.Helper()
	for _, dial := range receiver.Named("rtd.dial") {
		if dial.Parent() != root.ID() {
			continue
		}
		if port := dial.Attribute("server.port"); dial.Attribute("server.address") != "127.0.0.1" || port == nil {
			t.Errorf("dialled %v:%v", dial.Attribute("server.address"), port)
		}
		if steps := names(below(receiver, dial)...); steps != "rtd.dial.tcp rtd.dial.upgrade rtd.dial.ready" {
			t.Errorf("the steps of the dial are %s", steps)
		}
		if dial.Start().Before(root.Start()) || dial.End().After(root.End()) {
			t.Errorf("dialled from %v to %v, in a session from %v to %v", dial.Start(), dial.End(), root.Start(), root.End())
		}
	}
}

func TestTheTraceOfAConversation(t *testing.T) {
	receiver := wiretest.NewReceiver(t)
	r, _ := simRig(t, 1, sim.Config{}, traced(receiver))
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith(""))
	c.Expect101()
	c.SendText(`{"type":"response.create"}`)
	for !strings.Contains(string(mustRead(c)), `"response.done"`) {
	}
	c.SendText(`{"type":"input_audio_buffer.append","audio":"AAAA"}`)
	r.finish(c)
	s := receiver.Await("rtd.session", 1)[0]
	answer := receiver.Named("rtd.response")
	if len(answer) != 1 || answer[0].Parent() != s.ID() || answer[0].Attribute("rtd.response.status") != "completed" {
		t.Fatalf("%d responses: %v", len(answer), answer)
	}
	marks := names(answer[0].Marks()...)
	if !strings.HasPrefix(marks, "created first_") {
		t.Errorf("its marks are %s", marks)
	}
	at := answer[0].Start()
	for _, e := range answer[0].Events {
		if mark := time.Unix(0, int64(e.TimeUnixNano)); mark.Before(at) || mark.After(answer[0].End()) {
			t.Errorf("%s at %v, in a response from %v to %v", e.Name, mark, answer[0].Start(), answer[0].End())
		}
	}
	if s.Attribute("rtd.turns") != int64(1) || s.Attribute("gen_ai.usage.output_tokens") == nil {
		t.Errorf("turns %v, tokens %v", s.Attribute("rtd.turns"), s.Attribute("gen_ai.usage.output_tokens"))
	}
}

// mustRead returns the next message of the upstream.
func mustRead(c *wiretest.Client) []byte {
	_, payload := c.ReadMessage()
	return payload
}

func TestTheTraceOfALostUpstream(t *testing.T) {
	receiver := wiretest.NewReceiver(t)
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Accept()
		c.SendText(wiretest.SessionCreated)
		c.ReadMessage()
		c.SendText(`{"type":"response.created","response":{"id":"r1"}}`)
		c.Conn.Close()
	})
	r := startRig(t, up, 1, traced(receiver))
	r.awaitIdle(1)
	r.pool().Pause()
	c := r.session()
	c.SendText(`{"type":"response.create"}`)
	r.await("end of the session", func() bool { return r.finished.Load() == 1 })
	s := receiver.Await("rtd.session", 1)[0]
	if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || s.Attribute("error.type") != "1006" || s.Attribute("rtd.ended_by") != "upstream" {
		t.Errorf("%v, %v", s.Status, s.Attributes)
	}
	if lost := receiver.Named("rtd.response"); len(lost) != 1 || lost[0].Attribute("rtd.response.status") != "lost" || !lost[0].End().Equal(s.End()) {
		t.Errorf("responses: %v", lost)
	}
}

func TestTheTracesOfRefusals(t *testing.T) {
	up, receiver := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
	}), wiretest.NewReceiver(t)
	r := startRig(t, up, 0, traced(receiver), keyed())
	key := "Authorization: Bearer " + clientKey
	var checks []func()
	f := func(status int, code, target, children string, fault bool, lines ...string) {
		t.Helper()
		id := r.refused(status, code, wiretest.HSWith(target, lines...)).Get(headerSession)
		checks = append(checks, func() { checkRefusal(t, receiver, id, status, code, children, fault) })
	}
	f(401, "invalid_api_key", "", "rtd.handshake", false, "Authorization: Bearer sk-test-SECRET-unknown")
	f(404, "unknown_path", "/v1/SECRET", "rtd.handshake", false, key)
	f(404, "model_not_found", "/v1/realtime?model=other", "rtd.handshake", false, key)
	f(502, "upstream_auth_failed", "", "rtd.handshake rtd.pool_wait", true, key)
	f(502, "upstream_auth_failed", "/v1/realtime?model=mock&call_id=rtc_1", "rtd.handshake rtd.dial", true, key)
	r.stop()
	for _, check := range checks {
		check()
	}
	if log := r.log.String(); strings.Count(log, `"session refused"`) != len(checks) || strings.Count(log, `"trace":"`) != len(checks) {
		t.Errorf("the lines of the refusals do not name their traces:\n%s", log)
	}
}

// checkRefusal looks at the trace of the request that was given that id.
func checkRefusal(t *testing.T, receiver *wiretest.Receiver, id string, status int, code, children string, fault bool) {
	t.Helper()
	s := sessionSpan(receiver, id)
	if s.Span == nil || s.Attribute("http.response.status_code") != int64(status) || s.Attribute("rtd.refusal.code") != code {
		t.Fatalf("%s: no span says so", code)
	}
	if got := s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; got != fault {
		t.Errorf("%s: an error: %v, want %v", code, got, fault)
	}
	if got := names(below(receiver, s)...); got != children {
		t.Errorf("%s: below it %s, want %s", code, got, children)
	}
	if strings.Contains(s.String(), "SECRET") {
		t.Errorf("%s: %v", code, s)
	}
}

// sessionSpan is the root of the trace of a session, without a Span where there is none.
func sessionSpan(receiver *wiretest.Receiver, id string) wiretest.Span {
	for _, s := range receiver.Named("rtd.session") {
		if s.Attribute("rtd.session.id") == id {
			return s
		}
	}
	return wiretest.Span{}
}

func TestWhoIsTraced(t *testing.T) {
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewReceiver(t)
	r := startRig(t, up, 1, traced(receiver), func(c *Config) { c.Traces.SampleRatio = 0 })
	r.finish(r.session())
	r.finish(r.session(traceparent + "-00"))
	r.finish(r.session("traceparent: nonsense"))
	r.finish(r.session(traceparent+"-01", "tracestate: a=sk-test-SECRET12"))
	r.reload(func(c *Config) { c.Traces.SampleRatio = 1 })
	r.finish(r.session("traceparent: nonsense"))
	r.stop()
	spans := receiver.Named("rtd.session")
	if len(spans) != 2 || spans[0].Trace() != clientTrace || spans[0].TraceState != "" || spans[1].Trace() == clientTrace || spans[1].Parent() != "" {
		t.Errorf("%d traces: %v", len(spans), spans)
	}
}

func TestAReloadTurnsTracingOnAndOff(t *testing.T) {
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewReceiver(t)
	r := startRig(t, up, 1)
	before := r.session()
	r.reload(traced(receiver))
	r.finish(before) // had begun without
	during := r.session()
	second := wiretest.NewReceiver(t)
	r.reload(func(c *Config) { c.Traces.Endpoint, c.Traces.ServiceName = second.URL(), "other" })
	r.finish(during) // is sent where traces are sent now
	s := second.Await("rtd.session", 1)
	r.reload(func(c *Config) { c.Traces = Traces{} })
	r.finish(r.session())
	r.stop()
	if roots := second.Named("rtd.session"); len(s) != 1 || len(roots) != 1 || len(receiver.Requests()) != 0 {
		t.Errorf("%d traces, and %d requests elsewhere", len(roots), len(receiver.Requests()))
	}
	if st := r.traces.Stats(); st.On || st.Sent != uint64(len(second.Spans())) {
		t.Errorf("%+v", st)
	}
}

func TestAReceiverThatIsDownDisturbsNoSession(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	receiver := wiretest.NewReceiver(t)
	receiver.Answer(func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	r := startRig(t, up, 1, traced(receiver))
	r.finish(r.session())
	r.await("failure", func() bool { return r.traces.Stats().Failing })
	for range 3 {
		c := r.session()
		c.SendText("hello")
		c.ExpectText("hello")
		r.finish(c)
	}
	r.await("second attempt", func() bool { return len(receiver.Requests()) >= 2 })
	r.stop()
	log := r.log.String()
	if n := strings.Count(log, "traces cannot be sent"); n != 1 {
		t.Errorf("%d lines about it, want 1", n)
	}
	if !strings.Contains(log, "503 Service Unavailable") {
		t.Error("the line does not say why")
	}
	if s := r.traces.Stats(); s.Sent != 0 || s.Dropped["not_sent"] < 4*3 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log, `"session ended"`); n != 4 {
		t.Errorf("%d sessions ended, want 4", n)
	}
}

func TestAStopSendsTheTracesOfTheSessionsItEnds(t *testing.T) {
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewReceiver(t)
	r := startRig(t, up, 2, traced(receiver))
	a, b := r.session(), r.session()
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	for _, c := range []*wiretest.Client{a, b} {
		c.ExpectClose(1001)
		c.SendClose(1001, "")
	}
	<-stopped
	if n := len(receiver.Named("rtd.session")); n != 2 {
		t.Errorf("%d traces, want 2", n)
	}
}

func TestTheHeadersOfTheReceiverAreSecret(t *testing.T) {
	const credential = "sk-test-RECEIVER1"
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewReceiver(t)
	receiver.Answer(func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100000") // and then nothing: the error of the client is logged
		w.WriteHeader(http.StatusUnauthorized)
	})
	r := startRig(t, up, 1, traced(receiver), func(c *Config) { c.Traces.Header = http.Header{"Authorization": {"Basic " + credential}} })
	r.finish(r.session("X-Request-Id: " + credential))
	r.await("failure", func() bool { return r.traces.Stats().Failing })
	if got := receiver.Requests()[0].Header.Get("Authorization"); got != "Basic "+credential {
		t.Errorf("the receiver was sent %q", got)
	}
	for _, text := range []string{credential, "Basic " + credential} {
		if got := r.redact.String("x " + text); strings.Contains(got, credential) {
			t.Errorf("%s is not hidden: %s", text, got)
		}
	}
	r.stop()
	if strings.Contains(r.log.String(), credential) {
		t.Errorf("the log holds the credential of the receiver")
	}
}

func TestTracesThatCannotBe(t *testing.T) {
	f := func(endpoint, want string, change func(*Traces)) {
		t.Helper()
		u, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		traces := Traces{Endpoint: u}
		change(&traces)
		got := ""
		if err := traces.validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", endpoint, got, want)
		}
	}
	header := func(tr *Traces) { tr.Header = http.Header{"X": {"y"}} }
	f("http://10.0.0.1:4318", "traces: the headers would cross the network in clear to 10.0.0.1:4318; use https://", header)
	f("http://127.0.0.1:4318", "", header)
	f("https://otlp.example", "", header)
	f("grpc://otlp.example", "traces: the endpoint is no http:// or https:// address of a receiver", header)
	f("https://otlp.example", "traces: the sample ratio 1.5 is not between 0 and 1", func(tr *Traces) { tr.SampleRatio = 1.5 })
}

func TestFramesOfATracedSessionDoNotAllocate(t *testing.T) {
	tracer := trace.New(trace.Hooks{})
	tracer.Configure(trace.Config{Endpoint: &url.URL{Scheme: "http", Host: "unused"}, SampleRatio: 1})
	s := lone()
	s.admission = &admission{trace: tracer.Begin(nil, nil, s.accepted)}
	at := 2 * time.Second
	if n := testing.AllocsPerRun(1000, func() {
		at += 20 * ms
		s.frame(relay.Up, appendUp, at)
		s.frame(relay.Down, deltaDown, at)
	}); n != 0 && !raceEnabled { // a sync.Pool forgets at random for the race detector
		t.Errorf("%v allocations for a frame each way, want none", n)
	}
	s.frame(relay.Down, []byte(`{"type":"response.done","response":{"id":"resp_1","status":"completed"}}`), at)
	s.result = stats.Hit
	if s.trace.TraceID() == "" {
		t.Error("the session is not traced")
	}
}
