package trace

import (
	"context"
	"errors"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// batch is how many spans make a request worth sending; the last session of one may exceed it.
	batch = 512
	// gather is how long the first span of a batch waits for others.
	gather = time.Second
	// attemptTimeout bounds one request.
	attemptTimeout = 10 * time.Second
	// minPause and maxPause are between two attempts at a batch; the pauses double.
	minPause = time.Second
	maxPause = 30 * time.Second
	// maxAsked bounds the pause that a receiver may ask for.
	maxAsked = 5 * time.Minute
)

// reason says why spans were dropped.
type reason uint8

const (
	queueFull     reason = iota // more waited than may
	notSent                     // the receiver refused them, or did not take them before the stop
	beyondSession               // responses beyond MaxResponses
	numReasons
)

var reasons = [numReasons]string{queueFull: "queue_full", notSent: "not_sent", beyondSession: "session_limit"}

// Stats are a Tracer's gauges and counters, in spans.
type Stats struct {
	On, Failing bool
	Waiting     int
	Sent        uint64
	Dropped     map[string]uint64 // by reason; every reason is there
}

// Stats returns what was counted so far.
func (t *Tracer) Stats() Stats {
	s := Stats{On: t.pipe.Load() != nil, Failing: t.failing.Load(), Sent: t.sent.Load(), Dropped: map[string]uint64{}}
	for r, name := range reasons {
		s.Dropped[name] = t.dropped[r].Load()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Waiting = t.spans
	return s
}

func (t *Tracer) drop(r reason, spans int) { t.dropped[r].Add(uint64(spans)) }

func (t *Tracer) droppedInAll() (n uint64) {
	for r := range t.dropped {
		n += t.dropped[r].Load()
	}
	return n
}

// push queues an ended session, or drops it.
func (t *Tracer) push(s *Session) {
	n := s.size()
	t.mu.Lock()
	taken := !t.closed && t.spans+n <= t.hooks.Queue
	if taken {
		t.waiting = append(t.waiting, s)
		t.spans += n
	}
	full := t.spans >= batch
	t.mu.Unlock()
	if !taken {
		t.drop(queueFull, n)
	}
	signal(t.woken)
	if full {
		signal(t.full)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// take makes the spans of the next batch; none when nothing waits.
func (t *Tracer) take() []sdktrace.ReadOnlySpan {
	t.mu.Lock()
	n, size := 0, 0
	for n < len(t.waiting) && size < batch {
		size += t.waiting[n].size()
		n++
	}
	next := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	if len(t.waiting) == 0 {
		t.waiting = nil
	}
	t.mu.Unlock()
	for _, s := range next {
		s.finish()
	}
	clear(next) // the queue's array lives on
	return t.finished.take()
}

// Run sends what ends until Stop is called.
func (t *Tracer) Run() {
	defer close(t.done)
	for t.await() {
		for spans := t.take(); len(spans) > 0; spans = t.take() {
			if !t.deliver(spans) {
				t.flush(spans)
				return
			}
		}
	}
	t.flush(nil)
}

// Stop lets Run send what waits, for as long as ctx lasts and the receiver takes it, and waits for its return. What ends
// later is dropped.
func (t *Tracer) Stop(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	uncut := context.AfterFunc(ctx, t.kill)
	close(t.stop)
	<-t.done
	uncut()
	t.kill()
}

// await waits for a batch. It returns false once the Tracer is stopped.
func (t *Tracer) await() bool {
	select {
	case <-t.woken:
	case <-t.stop:
		return false
	}
	select {
	case <-t.full:
	case <-time.After(gather):
	case <-t.stop:
		return false
	}
	return true
}

// deliver sends a batch, as often as it takes, unless the receiver says that it will not have it. It returns false when
// the Tracer is stopped before.
func (t *Tracer) deliver(spans []sdktrace.ReadOnlySpan) bool {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		again := t.attempt(spans)
		if again == nil {
			return true
		}
		select {
		case <-time.After(max(pause, min(again.after, maxAsked))):
		case <-t.stop:
			return false
		}
	}
}

// flush sends what waits, spans first, until the receiver cannot be reached; then the rest is dropped.
func (t *Tracer) flush(spans []sdktrace.ReadOnlySpan) {
	if len(spans) == 0 {
		spans = t.take()
	}
	for lost := false; len(spans) > 0; spans = t.take() {
		if lost = lost || t.attempt(spans) != nil; lost {
			t.settle(spans, len(spans))
		}
	}
}

// attempt sends a batch once. Unless it is worth another attempt, the batch is over and counted.
func (t *Tracer) attempt(spans []sdktrace.ReadOnlySpan) *retryError {
	ctx, cancel := context.WithTimeout(t.life, attemptTimeout)
	defer cancel()
	p := t.pipe.Load()
	if p == nil { // tracing was turned off meanwhile
		t.settle(spans, len(spans))
		return nil
	}
	err := p.exporter.ExportSpans(ctx, spans)
	if err == nil {
		t.settle(spans, 0)
		t.recovered()
		return nil
	}
	t.failed(err)
	var (
		again   *retryError
		partial *partialError
	)
	switch {
	case errors.As(err, &again):
		return again
	case errors.As(err, &partial):
		t.settle(spans, min(partial.refused, len(spans)))
	default:
		t.settle(spans, len(spans))
	}
	return nil
}

// settle takes note of the end of a batch, of which some spans were lost.
func (t *Tracer) settle(spans []sdktrace.ReadOnlySpan, lost int) {
	t.drop(notSent, lost)
	t.sent.Add(uint64(len(spans) - lost))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans -= len(spans)
}

// failed begins a round of failures, unless one goes on.
func (t *Tracer) failed(err error) {
	if t.failing.Swap(true) {
		return
	}
	t.before = t.droppedInAll()
	if t.hooks.Failed != nil {
		t.hooks.Failed(err)
	}
}

// recovered ends it.
func (t *Tracer) recovered() {
	if t.failing.Swap(false) && t.hooks.Recovered != nil {
		t.hooks.Recovered(t.droppedInAll() - t.before)
	}
}
