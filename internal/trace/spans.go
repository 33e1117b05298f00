package trace

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// step is a part of a dial.
type step struct {
	name string
	took time.Duration
}

func (d *Dial) steps() [5]step {
	return [5]step{
		{"rtd.dial.dns", d.DNS}, {"rtd.dial.tcp", d.TCP}, {"rtd.dial.tls", d.TLS}, {"rtd.dial.upgrade", d.Upgrade}, {"rtd.dial.ready", d.Ready},
	}
}

// finish makes the session's spans; the SDK passes each on as it ends.
func (s *Session) finish() {
	ctx := oteltrace.ContextWithSpan(context.Background(), s.root)
	s.stretch(ctx, "rtd.handshake", s.Handshake)
	s.stretch(ctx, "rtd.pool_wait", s.PoolWait)
	s.dial(ctx)
	for i := range s.told {
		s.response(ctx, &s.told[i])
	}
	s.mark(s.root, "ready", s.Ready)
	s.mark(s.root, "first_frame", s.FirstFrame)
	s.root.SetAttributes(s.attributes()...)
	if s.Error != "" {
		s.root.SetStatus(codes.Error, s.Message)
	}
	s.root.End(oteltrace.WithTimestamp(s.Ended))
}

// child opens a span below that of ctx.
func (s *Session) child(ctx context.Context, name string, from time.Time, options ...oteltrace.SpanStartOption) (context.Context, oteltrace.Span) {
	return s.tracer.Start(ctx, name, append(options, oteltrace.WithTimestamp(from))...)
}

func (s *Session) stretch(ctx context.Context, name string, part Stretch) {
	if part.From.IsZero() {
		return
	}
	_, span := s.child(ctx, name, part.From)
	span.End(oteltrace.WithTimestamp(part.To))
}

func (s *Session) dial(ctx context.Context) {
	if s.Dial.From.IsZero() {
		return
	}
	var a attributes
	host, port, err := net.SplitHostPort(s.Dial.Host)
	if err != nil {
		host = s.Dial.Host
	}
	a.text(semconv.ServerAddressKey, host)
	if n, err := strconv.Atoi(port); err == nil {
		a.number(semconv.ServerPortKey, int64(n))
	}
	ctx, span := s.child(ctx, "rtd.dial", s.Dial.From, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(a...))
	at := s.Dial.From
	for _, step := range s.Dial.steps() {
		if step.took > 0 {
			s.stretch(ctx, step.name, Stretch{at, at.Add(step.took)})
			at = at.Add(step.took)
		}
	}
	if !s.Dial.To.IsZero() {
		at = s.Dial.To
	}
	span.End(oteltrace.WithTimestamp(at))
}

func (s *Session) response(ctx context.Context, r *Response) {
	var a attributes
	a.text("rtd.response.status", r.Status)
	if r.Done.IsZero() {
		a.text("rtd.response.status", "lost")
	}
	a.flag("rtd.response.interrupted", r.Interrupted)
	_, span := s.child(ctx, "rtd.response", r.Start, oteltrace.WithAttributes(a...))
	s.mark(span, "created", r.Created)
	s.mark(span, "first_text", r.Text)
	s.mark(span, "first_audio", r.Audio)
	if r.Status == "failed" {
		span.SetAttributes(semconv.ErrorTypeKey.String(r.Status))
		span.SetStatus(codes.Error, "")
	}
	end := r.Done
	if end.IsZero() {
		end = s.Ended
	}
	span.End(oteltrace.WithTimestamp(end))
}

// mark adds an event to a span, if it happened.
func (*Session) mark(span oteltrace.Span, name string, at time.Time) {
	if !at.IsZero() {
		span.AddEvent(name, oteltrace.WithTimestamp(at))
	}
}

// attributes are those of the root span. What OpenTelemetry has a name for goes by it.
func (s *Session) attributes() []attribute.KeyValue {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	var a attributes
	a.text("rtd.session.id", s.ID)
	a.text("rtd.request.id", s.RequestID)
	a.text(semconv.HTTPRequestMethodKey, "GET")
	a.text(semconv.URLSchemeKey, scheme)
	a.text(semconv.URLPathKey, s.Path)
	a.number(semconv.HTTPResponseStatusCodeKey, int64(s.Status))
	if s.Client.IsValid() {
		a.text(semconv.NetworkPeerAddressKey, s.Client.Addr().String())
		a.number(semconv.NetworkPeerPortKey, int64(s.Client.Port()))
	}
	a.text("gen_ai.provider.name", s.Provider)
	a.text("gen_ai.request.model", s.Model)
	a.number("gen_ai.usage.input_tokens", s.TokensIn)
	a.number("gen_ai.usage.output_tokens", s.TokensOut)
	a.text("rtd.key", s.Key)
	a.text("rtd.target", s.Target)
	a.text("rtd.pool.result", s.Pool)
	a.text("rtd.bypass.reason", s.Bypass)
	a.text("rtd.upstream.session.id", s.Upstream)
	a.text("rtd.preset", s.Preset)
	a.text("rtd.refusal.code", s.Refusal)
	a.text("rtd.ended_by", s.EndedBy)
	a.number("rtd.close.code", int64(s.Code))
	a.text(semconv.ErrorTypeKey, s.Error)
	a.number("rtd.frames.up", s.FramesUp)
	a.number("rtd.frames.down", s.FramesDown)
	a.number("rtd.bytes.up", s.BytesUp)
	a.number("rtd.bytes.down", s.BytesDown)
	a.number("rtd.turns", s.Turns)
	a.number("rtd.responses.untraced", int64(s.untold))
	return a
}

// attributes gathers what is known.
type attributes []attribute.KeyValue

func (a *attributes) text(key attribute.Key, v string) {
	if v != "" {
		*a = append(*a, key.String(v))
	}
}

func (a *attributes) number(key attribute.Key, v int64) {
	if v != 0 {
		*a = append(*a, key.Int64(v))
	}
}

func (a *attributes) flag(key attribute.Key, v bool) {
	if v {
		*a = append(*a, key.Bool(v))
	}
}
