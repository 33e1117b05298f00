package trace

import (
	"context"
	"net/url"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// BenchmarkSession is what the trace of a session costs in all, with as many responses, up to the bytes of the request.
func BenchmarkSession(b *testing.B) {
	for _, bench := range []struct {
		name      string
		responses int
	}{{"silent", 0}, {"responses=10", 10}, {"responses=64", MaxResponses}} {
		b.Run(bench.name, func(b *testing.B) {
			tr := New(Hooks{})
			tr.Configure(Config{Endpoint: &url.URL{Scheme: "http", Host: "unused"}, SampleRatio: 1})
			tr.pipe.Load().exporter = discard()
			b.ReportAllocs()
			for b.Loop() {
				s := tr.Begin(nil, nil, at(0))
				s.ID, s.Model, s.Target, s.Pool, s.Status = "rts_0123456789abcdefghij", "gpt-realtime", "openai/gpt-realtime", "hit", 101
				s.Handshake, s.PoolWait, s.Ready, s.Ended = Stretch{at(0), at(1)}, Stretch{at(1), at(1)}, at(1), at(10000)
				for i := range bench.responses {
					s.Respond(Response{Start: at(i), Created: at(i + 1), Text: at(i + 2), Audio: at(i + 3), Done: at(i + 4), Status: "completed"})
				}
				s.End()
				if tr.attempt(tr.take()) != nil {
					b.Fatal("not sent")
				}
			}
		})
	}
}

// discard is the exporter that a Tracer has, up to the request.
func discard() sdktrace.SpanExporter { return otlptrace.NewUnstarted(encoding{}) }

type encoding struct{}

func (encoding) Start(context.Context) error { return nil }
func (encoding) Stop(context.Context) error  { return nil }
func (encoding) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	_, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	return err
}
