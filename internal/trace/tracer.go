package trace

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// DefaultQueue is how many spans may wait, unless Hooks say otherwise.
const DefaultQueue = 8192

// Config says where traces go. The zero value: nowhere.
type Config struct {
	// Endpoint is the receiver's base address, http or https, with or without /v1/traces at its end. Default nil: off.
	Endpoint *url.URL
	// Header is sent with every request. Its values are secret.
	Header http.Header
	// RootCAs verify the receiver's certificate. nil: the system's.
	RootCAs *x509.CertPool
	// Proxy names the HTTP proxy on the way, as http.Transport.Proxy does. nil: none.
	Proxy func(*http.Request) (*url.URL, error)
	// SampleRatio is the share, 0 to 1, of the sessions to trace whose client does not say. Default 0: none of those.
	SampleRatio float64
	// ServiceName and Version say who sends. Default "": not said.
	ServiceName, Version string
}

// Hooks are what a Tracer tells its owner; they are called from Run and must return soon.
type Hooks struct {
	// Failed is called for the first batch that the receiver does not take, and not again before Recovered.
	Failed func(error)
	// Recovered is called when it takes one again, with how many spans were dropped meanwhile.
	Recovered func(dropped uint64)
	// Queue bounds the spans that wait. Default DefaultQueue.
	Queue int
}

// Tracer follows sessions. Its methods are safe for concurrent use. Make it with New.
type Tracer struct {
	hooks Hooks
	pipe  atomic.Pointer[pipe] // nil: off

	mu      sync.Mutex
	waiting []*Session // ended, the oldest first
	spans   int        // theirs and those being sent
	closed  bool       // nothing more is taken

	woken chan struct{} // capacity 1: something waits
	full  chan struct{} // capacity 1: a whole batch does
	stop  chan struct{}
	done  chan struct{}
	life  context.Context // of requests to the receiver
	kill  context.CancelFunc

	sent     atomic.Uint64
	dropped  [numReasons]atomic.Uint64
	failing  atomic.Bool
	before   uint64 // dropped when the failing began
	finished finished
}

// pipe is what a Config became.
type pipe struct {
	tracer   oteltrace.Tracer
	exporter sdktrace.SpanExporter
	close    func()
}

// New returns a Tracer that is off.
func New(hooks Hooks) *Tracer {
	if hooks.Queue == 0 {
		hooks.Queue = DefaultQueue
	}
	t := &Tracer{
		hooks: hooks,
		woken: make(chan struct{}, 1), full: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	t.life, t.kill = context.WithCancel(context.Background())
	return t
}

// Configure puts cfg in force for sessions that begin from now on, and for where all that end are sent.
func (t *Tracer) Configure(cfg Config) {
	var p *pipe
	if cfg.Endpoint != nil {
		p = t.newPipe(cfg)
	}
	if before := t.pipe.Swap(p); before != nil {
		before.close()
	}
}

func (t *Tracer) newPipe(cfg Config) *pipe {
	c := newClient(cfg)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))),
		sdktrace.WithResource(resourceOf(cfg)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxText, AttributeCountLimit: 128, EventCountLimit: 128, LinkCountLimit: 1,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 1,
		}),
		sdktrace.WithSpanProcessor(&t.finished),
	)
	return &pipe{
		tracer:   provider.Tracer("github.com/rtd-project/rtd", oteltrace.WithInstrumentationVersion(cfg.Version)),
		exporter: otlptrace.NewUnstarted(c),
		close:    c.http.CloseIdleConnections,
	}
}

// resourceOf describes this process. The SDK adds what OTEL_RESOURCE_ATTRIBUTES says.
func resourceOf(cfg Config) *resource.Resource {
	attrs := []attribute.KeyValue{semconv.ProcessPID(os.Getpid())}
	if name, err := os.Hostname(); err == nil {
		attrs = append(attrs, semconv.HostName(name))
	}
	if cfg.ServiceName != "" {
		attrs = append(attrs, semconv.ServiceName(cfg.ServiceName))
	}
	if cfg.Version != "" {
		attrs = append(attrs, semconv.ServiceVersion(cfg.Version))
	}
	return resource.NewWithAttributes(semconv.SchemaURL, attrs...)
}

// Begin opens the trace of a session whose client was accepted at at. parent and state are the values of the client's
// headers traceparent and tracestate (W3C Trace Context); the trace goes on from there if they are well-formed. It
// returns nil, which every method of Session takes, when this session is not traced.
func (t *Tracer) Begin(parent, state []string, at time.Time) *Session {
	p := t.pipe.Load()
	if p == nil {
		return nil
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier{parent, state})
	_, root := p.tracer.Start(ctx, "rtd.session", oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithTimestamp(at))
	if !root.IsRecording() {
		return nil
	}
	return &Session{in: t, tracer: p.tracer, root: root, accepted: at}
}

// maxState bounds a tracestate in bytes: what every vendor must pass on (W3C Trace Context section 3.3.1.5), and no more.
const maxState = 512

// carrier shows the two headers to the propagator.
type carrier struct{ parent, state []string }

// Get returns a copy: the trace must not hold on to the request.
func (c carrier) Get(key string) string {
	switch {
	case key == "traceparent" && len(c.parent) == 1: // several are malformed
		return strings.Clone(c.parent[0])
	case key == "tracestate":
		if v := strings.Join(c.state, ","); len(v) <= maxState { // several are one list
			return strings.Clone(v)
		}
	}
	return ""
}

func (carrier) Set(string, string) {}

func (carrier) Keys() []string { return nil }

// finished takes the spans as the SDK ends them, all from Run.
type finished struct{ spans []sdktrace.ReadOnlySpan }

func (*finished) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (f *finished) OnEnd(s sdktrace.ReadOnlySpan) { f.spans = append(f.spans, s) }

func (*finished) Shutdown(context.Context) error { return nil }

func (*finished) ForceFlush(context.Context) error { return nil }

// take returns the spans since the last call.
func (f *finished) take() []sdktrace.ReadOnlySpan {
	spans := f.spans
	f.spans = nil
	return spans
}
