package trace

import (
	"net/netip"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	// MaxResponses bounds the responses of a session that get a span of their own, the first ones.
	MaxResponses = 64
	// maxText bounds the text of an attribute, in characters.
	maxText = 1024
)

// Session is one sampled session. Everything but End is called by one goroutine at a time.
type Session struct {
	// Record is the caller's to fill until End.
	Record

	in       *Tracer
	tracer   oteltrace.Tracer
	root     oteltrace.Span
	accepted time.Time
	told     []Response
	untold   int // responses beyond MaxResponses
}

// Record is what is known of a session once it is over. Whatever is zero was not seen and is left out.
type Record struct {
	ID        string
	RequestID string // the client's
	Client    netip.AddrPort
	Path      string
	TLS       bool // the client's connection

	Key, Model, Provider, Target string
	Pool                         string // hit, miss or bypass
	Bypass                       string // why
	Upstream                     string // the upstream's name for the session
	Preset                       string // it was configured with

	Status  int    // of the HTTP answer
	Refusal string // code of the answer that was no 101

	Handshake, PoolWait Stretch
	Dial                Dial
	Ready, FirstFrame   time.Time // 101 sent; first message of the client
	Ended               time.Time

	EndedBy string
	Code    int    // of the Close, as the WebSocket API counts them
	Error   string // class of what went wrong; "" when nothing did
	Message string // of the error, for people

	FramesUp, FramesDown, BytesUp, BytesDown int64
	Turns, TokensIn, TokensOut               int64
}

// Stretch is a stretch of time.
type Stretch struct{ From, To time.Time }

// Dial is how the upstream session of this client was made, where it was made for this client. Its steps follow each
// other, so that To is for a dial that came to nothing.
type Dial struct {
	Stretch
	Host                          string // of the upstream, with a port if that is not the usual one
	DNS, TCP, TLS, Upgrade, Ready time.Duration
}

// Response is one response of the upstream. Created, Text and Audio are marks on the way; Done is zero for one that the
// end of the session cut off.
type Response struct {
	Start, Created, Text, Audio, Done time.Time
	Status                            string // completed, cancelled, failed or incomplete; "" without Done
	Interrupted                       bool
}

// TraceID names the trace, "" for none.
func (s *Session) TraceID() string {
	if s == nil {
		return ""
	}
	return s.root.SpanContext().TraceID().String()
}

// Respond adds a response.
func (s *Session) Respond(r Response) {
	switch {
	case s == nil:
	case len(s.told) == MaxResponses:
		s.untold++
	default:
		s.told = append(s.told, r)
	}
}

// End hands the session over, without waiting. The caller leaves it alone then.
func (s *Session) End() {
	if s == nil {
		return
	}
	s.in.drop(beyondSession, s.untold)
	s.in.push(s)
}

// size is how many spans the session will be.
func (s *Session) size() int {
	n := 1 + len(s.told)
	for _, part := range []Stretch{s.Handshake, s.PoolWait} {
		if !part.From.IsZero() {
			n++
		}
	}
	if !s.Dial.From.IsZero() {
		n++
		for _, step := range s.Dial.steps() {
			if step.took > 0 {
				n++
			}
		}
	}
	return n
}
