package wiretest

import (
	"crypto/x509"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is an OTLP receiver of traces over HTTP, which keeps what it is sent.
type Receiver struct {
	// Timeout bounds Await. Default 10 s.
	Timeout time.Duration

	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	answer   func(http.ResponseWriter)
	requests []*http.Request
	spans    []Span
}

// Span is one span as it came.
type Span struct {
	*tracepb.Span
	// Resource are the attributes of who sent it.
	Resource map[string]any
}

// NewReceiver starts a receiver, which takes everything.
func NewReceiver(t testing.TB) *Receiver {
	r := newReceiver(t)
	r.server.Start()
	return r
}

// NewTLSReceiver is NewReceiver over TLS; Roots has its authority.
func NewTLSReceiver(t testing.TB) *Receiver {
	r := newReceiver(t)
	r.server.StartTLS()
	return r
}

func newReceiver(t testing.TB) *Receiver {
	r := &Receiver{Timeout: 10 * time.Second, t: t}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	t.Cleanup(r.server.Close)
	return r
}

// URL is its base address.
func (r *Receiver) URL() *url.URL {
	u, err := url.Parse(r.server.URL)
	if err != nil {
		r.t.Fatalf("wiretest: %v", err)
	}
	return u
}

// Roots verify the certificate of a receiver with TLS.
func (r *Receiver) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(r.server.Certificate())
	return roots
}

// CA is the certificate of its authority in PEM.
func (r *Receiver) CA() []byte { return pemOf("CERTIFICATE", r.server.Certificate().Raw) }

// Answer makes it answer so from now on, and keep no spans; nil: take them again.
func (r *Receiver) Answer(answer func(http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender hung up
	}
	r.mu.Lock()
	r.requests = append(r.requests, req)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(w)
		return
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		r.t.Errorf("wiretest: the receiver got %d bytes that are no traces: %v", len(body), err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range data.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans = append(r.spans, Span{span, values(resource.Resource.GetAttributes())})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Requests returns the heads of the requests so far.
func (r *Receiver) Requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Spans returns what came so far, in the order of their begins.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(r.spans), func(a, b Span) int {
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano))
	})
}

// Named returns the spans of that name that came so far.
func (r *Receiver) Named(name string) []Span {
	return slices.DeleteFunc(r.Spans(), func(s Span) bool { return s.Name != name })
}

// Await waits until n spans of that name came, and returns them.
func (r *Receiver) Await(name string, n int) []Span {
	r.t.Helper()
	for deadline := time.Now().Add(r.Timeout); ; time.Sleep(2 * time.Millisecond) {
		got := r.Named(name)
		if len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("wiretest: %d spans %s within %v, want %d", len(got), name, r.Timeout, n)
		}
	}
}

// Attribute returns the value of an attribute: a string, an int64, a bool or nil.
func (s Span) Attribute(key string) any { return values(s.Attributes)[key] }

// Trace is the trace's id in hex.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// Parent is the id of the span above it in hex, "" for none.
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// ID is the span's id in hex.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Start is when it began.
func (s Span) Start() time.Time { return time.Unix(0, int64(s.StartTimeUnixNano)) }

// End is when it ended.
func (s Span) End() time.Time { return time.Unix(0, int64(s.EndTimeUnixNano)) }

// Marks are the names of its events, in order.
func (s Span) Marks() []string {
	var names []string
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

func values(list []*commonpb.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		}
	}
	return m
}
