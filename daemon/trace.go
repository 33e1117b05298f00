package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/trace"
	"github.com/rtd-project/rtd/internal/wire"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Traces says where the traces of sessions go. The zero value: nowhere, and no session is followed for them.
type Traces struct {
	// Endpoint is the base address of an OTLP receiver that speaks HTTP with protobuf, http or https, with or without
	// /v1/traces at its end. Default nil: off.
	Endpoint *url.URL
	// Header is sent with every request; its values are secret. They never cross a network in clear.
	Header http.Header
	// RootCAs verify the receiver's certificate. nil: the system's.
	RootCAs *x509.CertPool
	// SampleRatio is the share, 0 to 1, of the sessions to trace whose client does not say with a traceparent. Default 0.
	SampleRatio float64
	// ServiceName is what the traces are filed under. Default DefaultServiceName.
	ServiceName string
}

// flushTimeout bounds what a stop waits for the receiver of traces.
const flushTimeout = 5 * time.Second

func (t Traces) validate() error {
	if t.Endpoint == nil {
		return nil
	}
	switch {
	case t.Endpoint.Scheme != "http" && t.Endpoint.Scheme != "https" || t.Endpoint.Host == "":
		return errors.New("traces: the endpoint is no http:// or https:// address of a receiver")
	case !(t.SampleRatio >= 0 && t.SampleRatio <= 1):
		return fmt.Errorf("traces: the sample ratio %v is not between 0 and 1", t.SampleRatio)
	case len(t.Header) > 0 && isPlaintext(t.Endpoint) && !isLoopback(t.Endpoint.Hostname()):
		return fmt.Errorf("traces: the headers would cross the network in clear to %s; use https://", t.Endpoint.Host)
	}
	return nil
}

// secrets are the values of the headers, and of those with a scheme before it the credential alone.
func (t Traces) secrets() (list []string) {
	for _, values := range t.Header {
		for _, v := range values {
			_, credential, _ := strings.Cut(v, " ")
			list = append(list, v, credential)
		}
	}
	return list
}

func (d *Daemon) newTracer() *trace.Tracer {
	return trace.New(trace.Hooks{
		Failed: func(err error) {
			d.log.Warn("traces cannot be sent; they wait, and those that do not fit are dropped", "endpoint", d.traceEndpoint(), "error", err)
		},
		Recovered: func(dropped uint64) {
			d.log.Info("traces are sent again", "endpoint", d.traceEndpoint(), "dropped_spans", dropped)
		},
	})
}

func (d *Daemon) traceEndpoint() string {
	if u := d.current().cfg.Traces.Endpoint; u != nil {
		return u.Redacted()
	}
	return ""
}

// configureTraces puts the part of a configuration that is about traces in force.
func (d *Daemon) configureTraces(cfg Config) {
	t := cfg.Traces
	d.traces.Configure(trace.Config{
		Endpoint: t.Endpoint, Header: t.Header, RootCAs: t.RootCAs, SampleRatio: t.SampleRatio,
		ServiceName: orDefault(t.ServiceName, DefaultServiceName), Version: ReadBuild().Version,
		Proxy: func(req *http.Request) (*url.URL, error) {
			// The variables are read as for upstreams, whose schemes these are.
			return cfg.Proxy(&url.URL{Scheme: map[string]string{"http": "ws", "https": "wss"}[req.URL.Scheme], Host: req.URL.Host})
		},
	})
}

// stopTraces sends what waits, until flushTimeout or the end of the grace.
func (d *Daemon) stopTraces(graceEnds time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), min(flushTimeout, time.Until(graceEnds)))
	defer cancel()
	d.traces.Stop(ctx)
}

func tracesMessage(s trace.Stats) *rtdv1.Traces {
	return &rtdv1.Traces{On: s.On, Failing: s.Failing, Waiting: uint64(s.Waiting), Sent: s.Sent, Dropped: s.Dropped}
}

// beginTrace follows a request for a session, if it is to be traced. The client's tracestate is passed on with the
// trace, but for one that holds what looks like a secret.
func (d *Daemon) beginTrace(s *session, req *wire.Request, encrypted bool) {
	state := req.Header["Tracestate"]
	for _, v := range state {
		if d.redact.String(v) != v {
			state = nil
		}
	}
	s.trace = d.traces.Begin(req.Header["Traceparent"], state, s.accepted)
	if t := s.trace; t != nil {
		t.ID, t.Client, t.TLS, t.RequestID = s.id, s.client, encrypted, d.redact.String(s.requestID)
		if realtimePaths[req.Path] { // any other is the client's own text
			t.Path = strings.Clone(req.Path)
		}
	}
}

// traceUpstream takes what is known of the upstream session, before the relay may end it.
func (s *session) traceUpstream() {
	t := s.trace
	if t == nil {
		return
	}
	t.Status = http.StatusSwitchingProtocols
	if s.lease != nil {
		admitted := s.accepted.Add(s.admitted)
		t.PoolWait = trace.Stretch{From: admitted, To: admitted.Add(s.lease.Wait())}
	}
	if s.result == stats.Hit {
		return // its dial was over before the client came
	}
	if s.lease != nil {
		t.Dial.From, t.Dial.Host = s.lease.Started(), hostOf(s.daemon.served(s.pool.Key()).url)
	}
	w := s.upstream
	t.Dial.DNS, t.Dial.TCP, t.Dial.TLS, t.Dial.Upgrade, t.Dial.Ready = w.timing.DNS, w.timing.TCP, w.timing.TLS, w.timing.Upgrade, w.ready
}

// traceDial takes the begin of a dial for this client alone.
func (s *session) traceDial(host string) {
	if t := s.trace; t != nil {
		t.Dial.From, t.Dial.Host = time.Now(), host
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// answered implements sink.
func (s *session) answered(t *turn, status string) {
	if s.trace == nil {
		return
	}
	at := func(mark time.Duration) time.Time {
		if mark == 0 {
			return time.Time{}
		}
		return s.daemon.epoch.Add(mark)
	}
	s.trace.Respond(trace.Response{
		Start: at(t.start), Created: at(t.created), Text: at(t.text), Audio: at(t.audio), Done: at(t.done),
		Status: status, Interrupted: t.cut,
	})
}

// traceEnded ends the trace of a session that has ended; p is all that went on in it.
func (s *session) traceEnded(p *progress) {
	t := s.trace
	if t == nil {
		return
	}
	s.traceRoute()
	c := s.end.Counters
	t.Ready, t.Ended = s.accepted.Add(time.Duration(s.ready.Load())), s.end.at
	if p.firstFrame != 0 {
		t.FirstFrame = s.daemon.epoch.Add(p.firstFrame)
	}
	t.Upstream = s.daemon.redact.String(s.upstream.info.ID)
	if preset := s.upstream.preset; preset != nil {
		t.Preset = preset.Name
	}
	t.FramesUp, t.FramesDown = int64(c.Frames[relay.Up]), int64(c.Frames[relay.Down])
	t.BytesUp, t.BytesDown = int64(c.Bytes[relay.Up]), int64(c.Bytes[relay.Down])
	t.Turns, t.TokensIn, t.TokensOut = int64(p.whole.count), p.usage.Input, p.usage.Output
	t.EndedBy, t.Code = s.end.By.String(), int(s.end.Code)
	switch {
	case s.end.Err != nil:
		t.Message = s.daemon.redact.String(s.end.Err.Error())
		fallthrough
	case !orderly[s.end.Code]:
		t.Error = strconv.Itoa(t.Code)
		t.Message = orDefault(t.Message, s.daemon.redact.String(s.end.Reason))
	}
	t.End()
}

// orderly are the codes of a session that ended as sessions do.
var orderly = map[ws.StatusCode]bool{ws.StatusNormalClosure: true, ws.StatusGoingAway: true, ws.StatusNoStatusRcvd: true}

// traceRefused ends the trace of a request that got no session; r is nil for a client that was gone before it was told.
func (s *session) traceRefused(r *refusal, err error) {
	t := s.trace
	if t == nil {
		return
	}
	s.traceRoute()
	t.Ended = time.Now()
	switch {
	case !t.Dial.From.IsZero():
		t.Dial.To = t.Ended
	case s.admitted != 0 && s.pool != nil:
		t.PoolWait = trace.Stretch{From: t.Handshake.To, To: t.Ended}
	}
	t.Refusal = clientGone
	if r != nil {
		t.Status, t.Refusal = r.status, r.code
		if r.status >= http.StatusInternalServerError { // below, the fault is the client's
			t.Error, t.Message = r.code, s.daemon.redact.String(err.Error())
		}
	}
	t.End()
}

// traceField is what a log line says of the trace, nothing where there is none.
func (s *session) traceField() []any {
	if s.trace == nil {
		return nil
	}
	return []any{"trace", s.trace.TraceID()}
}

// traceRoute takes what is known of a request as soon as it was admitted.
func (s *session) traceRoute() {
	t := s.trace
	t.Key, t.Model = s.key, s.model
	if s.bypassed != nil {
		t.Bypass = s.bypassed.reason
	}
	t.Handshake = trace.Stretch{From: s.accepted, To: s.accepted.Add(s.admitted)}
	if s.admitted == 0 {
		t.Handshake.To = time.Now()
	}
	if s.route != nil { // none for an unknown model, also one that a reload made unknown
		t.Provider = s.route.endpoint.Dialect
	}
	if s.upstream != nil {
		t.Target, t.Pool = s.target(), s.result.String()
	} else if s.pool != nil {
		t.Target = s.pool.Name()
	}
}
