package trace

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// running is a Tracer that runs until the end of the test.
func running(t testing.TB, hooks Hooks, cfg Config) *Tracer {
	tr := New(hooks)
	tr.Configure(cfg)
	go tr.Run()
	t.Cleanup(func() {
		select {
		case <-tr.stop:
		default:
			tr.stopNow()
		}
	})
	return tr
}

// stopNow gives the receiver ten seconds.
func (t *Tracer) stopNow() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	t.Stop(ctx)
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func TestTheSpansOfASession(t *testing.T) {
	receiver := wiretest.NewReceiver(t)
	tr := running(t, Hooks{}, Config{Endpoint: receiver.URL(), SampleRatio: 1, ServiceName: "voice", Version: "v1"})
	s := tr.Begin(nil, nil, at(0))
	s.Record = Record{
		ID: "rts_1", RequestID: "req", Client: netip.MustParseAddrPort("192.0.2.7:5"), Path: "/v1/realtime", TLS: true,
		Key: "web", Model: "m", Provider: "openai", Target: "up/m", Pool: "miss", Upstream: "sess_1", Status: 101,
		Handshake: Stretch{at(0), at(2)}, PoolWait: Stretch{at(2), at(90)},
		Dial:  Dial{Stretch: Stretch{From: at(3)}, Host: "up.example:8443", DNS: time.Millisecond, TCP: 9 * time.Millisecond, TLS: 20 * time.Millisecond, Upgrade: 30 * time.Millisecond, Ready: 27 * time.Millisecond},
		Ready: at(91), FirstFrame: at(200), Ended: at(5000), EndedBy: "client", Code: 1006, Error: "1006", Message: "EOF",
		FramesUp: 3, BytesDown: 9, Turns: 1, TokensIn: 11, TokensOut: 12,
	}
	s.Respond(Response{Start: at(1000), Created: at(1050), Text: at(1200), Audio: at(1300), Done: at(4000), Status: "completed"})
	s.Respond(Response{Start: at(4000), Created: at(4010), Done: at(4100), Status: "failed"})
	s.Respond(Response{Start: at(4500), Interrupted: true})
	id := s.TraceID()
	s.End()
	tr.stopNow()

	var tree []string
	names := map[string]string{"": "-"}
	for _, span := range receiver.Spans() {
		names[span.ID()] = span.Name
	}
	for _, span := range receiver.Spans() {
		tree = append(tree, fmt.Sprintf("%d-%d %s < %s %v", span.Start().Sub(noon).Milliseconds(), span.End().Sub(noon).Milliseconds(), span.Name, names[span.Parent()], span.Marks()))
		if span.Trace() != id {
			t.Errorf("%s is of the trace %s, want %s", span.Name, span.Trace(), id)
		}
	}
	want := strings.TrimSpace(`
0-5000 rtd.session < - [ready first_frame]
0-2 rtd.handshake < rtd.session []
2-90 rtd.pool_wait < rtd.session []
3-90 rtd.dial < rtd.session []
3-4 rtd.dial.dns < rtd.dial []
4-13 rtd.dial.tcp < rtd.dial []
13-33 rtd.dial.tls < rtd.dial []
33-63 rtd.dial.upgrade < rtd.dial []
63-90 rtd.dial.ready < rtd.dial []
1000-4000 rtd.response < rtd.session [created first_text first_audio]
4000-4100 rtd.response < rtd.session [created]
4500-5000 rtd.response < rtd.session []`)
	got := sortedByTree(tree)
	if got != sortedByTree(strings.Split(want, "\n")) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(tree, "\n"), want)
	}

	root, dial, answers := receiver.Named("rtd.session")[0], receiver.Named("rtd.dial")[0], receiver.Named("rtd.response")
	for key, want := range map[string]any{
		"rtd.session.id": "rts_1", "rtd.request.id": "req", "network.peer.address": "192.0.2.7", "network.peer.port": int64(5), "url.path": "/v1/realtime", "url.scheme": "https",
		"http.request.method": "GET", "http.response.status_code": int64(101), "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": int64(11),
		"gen_ai.usage.output_tokens": int64(12), "rtd.key": "web", "rtd.target": "up/m", "rtd.pool.result": "miss", "rtd.upstream.session.id": "sess_1", "rtd.ended_by": "client",
		"rtd.close.code": int64(1006), "error.type": "1006", "rtd.frames.up": int64(3), "rtd.frames.down": nil, "rtd.bytes.down": int64(9), "rtd.turns": int64(1),
	} {
		if got := root.Attribute(key); got != want {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
	if root.Kind != tracepb.Span_SPAN_KIND_SERVER || root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || root.Status.GetMessage() != "EOF" {
		t.Errorf("the session is %v, %v", root.Kind, root.Status)
	}
	if dial.Kind != tracepb.Span_SPAN_KIND_CLIENT || dial.Attribute("server.address") != "up.example" || dial.Attribute("server.port") != int64(8443) {
		t.Errorf("the dial is %v to %v", dial.Kind, dial.Attributes)
	}
	if root.Resource["service.name"] != "voice" || root.Resource["service.version"] != "v1" || root.Resource["host.name"] == nil {
		t.Errorf("sent by %v", root.Resource)
	}
	for i, status := range []string{"completed", "failed", "lost"} {
		if got := answers[i].Attribute("rtd.response.status"); got != status {
			t.Errorf("response %d is %v, want %v", i, got, status)
		}
		if failed := answers[i].Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != (status == "failed") {
			t.Errorf("response %d: %v", i, answers[i].Status)
		}
	}
	if answers[2].Attribute("rtd.response.interrupted") != true || answers[0].Attribute("rtd.response.interrupted") != nil {
		t.Errorf("interrupted: %v, %v", answers[2].Attributes, answers[0].Attributes)
	}
	if st := tr.Stats(); st.Sent != uint64(len(tree)) || st.Waiting != 0 || sum(st.Dropped) != 0 {
		t.Errorf("%+v for %d spans", st, len(tree))
	}
}

func sortedByTree(lines []string) string {
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l] = true
	}
	return fmt.Sprint(seen) // maps print in the order of their keys
}

func sum(dropped map[string]uint64) (n uint64) {
	for _, v := range dropped {
		n += v
	}
	return n
}

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

func TestTheContextOfTheClient(t *testing.T) {
	f := func(ratio float64, parent, state []string, sampled, taken bool, wantState string) {
		t.Helper()
		receiver := wiretest.NewReceiver(t)
		tr := running(t, Hooks{}, Config{Endpoint: receiver.URL(), SampleRatio: ratio})
		s := tr.Begin(parent, state, at(0))
		if (s != nil) != sampled {
			t.Errorf("%q, ratio %v: sampled %v, want %v", parent, ratio, s != nil, sampled)
		}
		if s == nil {
			return
		}
		if got := s.TraceID() == clientTrace; got != taken {
			t.Errorf("%q: the client's trace goes on: %v, want %v", parent, got, taken)
		}
		s.Ended = at(1)
		s.End()
		tr.stopNow()
		span := receiver.Await("rtd.session", 1)[0]
		if got := span.Parent() == clientSpan; span.Trace() != s.TraceID() || got != taken || !taken && span.Parent() != "" {
			t.Errorf("%q: below %q in %s", parent, span.Parent(), span.Trace())
		}
		if span.TraceState != wantState {
			t.Errorf("%q: tracestate %q, want %q", state, span.TraceState, wantState)
		}
	}
	one := func(s string) []string { return []string{s} }
	yes, no := "00-"+clientTrace+"-"+clientSpan+"-01", "00-"+clientTrace+"-"+clientSpan+"-00"
	f(1, nil, nil, true, false, "")
	f(0, nil, nil, false, false, "")
	f(0, one(yes), nil, true, true, "")
	f(1, one(no), nil, false, false, "")
	f(0, one(yes), one("a=1,b=2"), true, true, "a=1,b=2")
	f(0, one(yes), []string{"a=1", "b=2"}, true, true, "a=1,b=2")
	f(0, one(yes), one("a=1,a=2"), true, true, "")
	f(0, one(yes), one("a="+strings.Repeat("x", maxState)), true, true, "")
	f(1, nil, one("a=1"), true, false, "")
	f(0, one("cc-"+clientTrace+"-"+clientSpan+"-01-what-the-future-brings"), nil, true, true, "")
	for _, malformed := range []string{
		"", "00", yes + "-x", strings.ToUpper(yes), "ff" + yes[2:], "00-" + strings.Repeat("0", 32) + "-" + clientSpan + "-01",
		"00-" + clientTrace + "-" + strings.Repeat("0", 16) + "-01", " " + yes, strings.Repeat("0-", 4096), "00-" + clientTrace + "-" + clientSpan + "-0g",
	} {
		f(1, one(malformed), nil, true, false, "")
		f(0, one(malformed), nil, false, false, "")
	}
	f(1, []string{yes, yes}, nil, true, false, "")
}

func TestNothingIsKeptOfASessionThatIsNotTraced(t *testing.T) {
	tr := New(Hooks{})
	parent := []string{"00-" + clientTrace + "-" + clientSpan + "-01"}
	if n := testing.AllocsPerRun(100, func() {
		s := tr.Begin(parent, nil, noon)
		s.Respond(Response{})
		if s.TraceID() != "" {
			t.Error("traced")
		}
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOnlyTheFirstResponsesOfASessionAreTold(t *testing.T) {
	receiver := wiretest.NewReceiver(t)
	tr := running(t, Hooks{}, Config{Endpoint: receiver.URL(), SampleRatio: 1})
	s := tr.Begin(nil, nil, at(0))
	for i := range MaxResponses + 3 {
		s.Respond(Response{Start: at(i), Done: at(i + 1), Status: "completed"})
	}
	s.Ended = at(1000)
	s.End()
	tr.stopNow()
	if n := len(receiver.Named("rtd.response")); n != MaxResponses {
		t.Errorf("%d responses, want %d", n, MaxResponses)
	}
	if got := receiver.Named("rtd.session")[0].Attribute("rtd.responses.untraced"); got != int64(3) {
		t.Errorf("untraced: %v, want 3", got)
	}
	if d := tr.Stats().Dropped["session_limit"]; d != 3 {
		t.Errorf("%d dropped, want 3", d)
	}
}

func TestWhereTracesAreSent(t *testing.T) {
	f := func(base, want string, header http.Header) {
		t.Helper()
		receiver := wiretest.NewReceiver(t)
		cfg := Config{Endpoint: receiver.URL(), Header: header, SampleRatio: 1}
		cfg.Endpoint.Path = base
		tr := running(t, Hooks{}, cfg)
		s := tr.Begin(nil, nil, at(0))
		s.Ended = at(1)
		s.End()
		tr.stopNow()
		requests := receiver.Requests()
		if len(requests) != 1 || requests[0].URL.Path != want {
			t.Fatalf("%q: %d requests, want one to %s", base, len(requests), want)
		}
		req := requests[0]
		if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/x-protobuf" || req.Header.Get("User-Agent") != "rtd" {
			t.Errorf("%s %v", req.Method, req.Header)
		}
		for name := range header {
			if req.Header.Get(name) != header.Get(name) {
				t.Errorf("%s: %q", name, req.Header.Get(name))
			}
		}
	}
	f("", "/v1/traces", nil)
	f("/", "/v1/traces", nil)
	f("/v1/traces", "/v1/traces", http.Header{"Authorization": {"Bearer sk-test-otlp"}})
	f("/otlp/", "/otlp/v1/traces", http.Header{"X-Tenant": {"a"}})
}

func TestTheCertificateOfTheReceiver(t *testing.T) {
	receiver := wiretest.NewTLSReceiver(t)
	var failure error
	tr := running(t, Hooks{Failed: func(err error) { failure = err }}, Config{Endpoint: receiver.URL(), SampleRatio: 1})
	s := tr.Begin(nil, nil, at(0))
	s.Ended = at(1)
	s.End()
	tr.stopNow()
	if failure == nil || !strings.Contains(failure.Error(), "certificate") || len(receiver.Requests()) != 0 {
		t.Errorf("an unknown authority: %v, %d requests", failure, len(receiver.Requests()))
	}
	tr = running(t, Hooks{}, Config{Endpoint: receiver.URL(), RootCAs: receiver.Roots(), SampleRatio: 1})
	s = tr.Begin(nil, nil, at(0))
	s.Ended = at(1)
	s.End()
	tr.stopNow()
	receiver.Await("rtd.session", 1)
}
