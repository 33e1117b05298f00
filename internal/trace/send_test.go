package trace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// scripted is an exporter that answers as a test says, and remembers when it was asked.
type scripted struct {
	mu     sync.Mutex
	answer func(ctx context.Context, attempt int) error
	asked  []time.Time
	taken  int
}

func (s *scripted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	attempt := len(s.asked)
	s.mu.Unlock()
	if s.answer != nil {
		if err := s.answer(ctx, attempt); err != nil {
			return fmt.Errorf("traces export: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken += len(spans)
	return nil
}

func (*scripted) Shutdown(context.Context) error { return nil }

// told is what a Tracer told its owner.
type told struct {
	failed    []string
	recovered []uint64
}

func (o *told) hooks() Hooks {
	return Hooks{
		Failed:    func(err error) { o.failed = append(o.failed, err.Error()) },
		Recovered: func(n uint64) { o.recovered = append(o.recovered, n) },
	}
}

// scriptedTracer is a Tracer, to be run in a bubble, whose receiver is e.
func scriptedTracer(hooks Hooks, e *scripted) *Tracer {
	tr := New(hooks)
	tr.Configure(Config{Endpoint: &url.URL{Scheme: "http", Host: "unused"}, SampleRatio: 1})
	tr.pipe.Load().exporter = e
	return tr
}

// session is one that ends as one span.
func (t *Tracer) session() {
	s := t.Begin(nil, nil, noon)
	s.Ended = noon
	s.End()
}

var errBusy = &retryError{err: errors.New("busy")}

func TestAReceiverThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scripted{answer: func(_ context.Context, attempt int) error {
			if attempt < 8 {
				return errBusy
			}
			return nil
		}}
		var o told
		tr := scriptedTracer(o.hooks(), e)
		go tr.Run()
		tr.session()
		time.Sleep(500 * time.Millisecond)
		tr.session() // goes with it
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var pauses []time.Duration
		for i := range e.asked[1:] {
			pauses = append(pauses, e.asked[i+1].Sub(e.asked[i]))
		}
		want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}
		if !slices.Equal(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if len(o.failed) != 1 || !strings.Contains(o.failed[0], "busy") || !slices.Equal(o.recovered, []uint64{0}) {
			t.Errorf("%+v, want one failure and one recovery", o)
		}
		if s := tr.Stats(); e.taken != 2 || s.Sent != 2 || s.Waiting != 0 || s.Failing || sum(s.Dropped) != 0 {
			t.Errorf("%d taken, %+v", e.taken, s)
		}
		tr.stopNow()
	})
}

func TestAReceiverMayAskForTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := []time.Duration{0, 20 * time.Second, 24 * time.Hour}
		e := &scripted{answer: func(_ context.Context, attempt int) error {
			if attempt < len(asked) {
				return &retryError{errors.New("busy"), asked[attempt]}
			}
			return nil
		}}
		tr := scriptedTracer(Hooks{}, e)
		go tr.Run()
		tr.session()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(e.asked) != 3 || e.asked[1].Sub(e.asked[0]) != 20*time.Second || e.asked[2].Sub(e.asked[1]) != maxAsked {
			t.Errorf("asked at %v", e.asked)
		}
		tr.stopNow()
	})
}

func TestWhatAReceiverRefusesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scripted{answer: func(_ context.Context, attempt int) error {
			switch attempt {
			case 1:
				return errors.New("unauthorized")
			case 2:
				return &partialError{1}
			}
			return nil
		}}
		var o told
		tr := scriptedTracer(o.hooks(), e)
		go tr.Run()
		for range 3 {
			tr.session()
			tr.session()
			time.Sleep(2 * gather)
		}
		synctest.Wait()
		if s := tr.Stats(); s.Sent != 3 || s.Dropped["not_sent"] != 3 || s.Waiting != 0 {
			t.Errorf("%+v, want 3 sent and 3 not", s)
		}
		if len(o.failed) != 1 || !slices.Equal(o.recovered, []uint64{3}) {
			t.Errorf("%+v, want one round, in which three were dropped", o)
		}
		tr.stopNow()
	})
}

func TestWhatDoesNotFitIsDroppedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := scriptedTracer(Hooks{Queue: 10}, &scripted{answer: func(context.Context, int) error { return errBusy }})
		go tr.Run()
		tr.session()
		time.Sleep(2 * gather) // now it is being sent, and counts
		for range 4 {
			s := tr.Begin(nil, nil, noon)
			s.Handshake, s.PoolWait, s.Ended = Stretch{noon, noon}, Stretch{noon, noon}, noon
			s.End() // 3 spans
		}
		if s := tr.Stats(); s.Waiting != 10 || s.Dropped["queue_full"] != 3 || !s.Failing {
			t.Errorf("%+v, want 10 waiting and 3 dropped", s)
		}
		tr.stopNow()
		if s := tr.Stats(); s.Waiting != 0 || s.Dropped["not_sent"] != 10 || s.Sent != 0 {
			t.Errorf("after the stop: %+v", s)
		}
		tr.session() // too late
		if s := tr.Stats(); s.Dropped["queue_full"] != 4 {
			t.Errorf("an end after the stop: %+v", s)
		}
	})
}

func TestAStopSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scripted{}
		tr := scriptedTracer(Hooks{}, e)
		for range 2*batch + 7 {
			tr.session()
		}
		go tr.Run()
		start := time.Now()
		tr.stopNow()
		if took := time.Since(start); took != 0 || e.taken != 2*batch+7 || len(e.asked) != 3 {
			t.Errorf("%d spans in %d requests, in %v", e.taken, len(e.asked), took)
		}
	})
}

func TestAStopDoesNotWaitForAReceiverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return &retryError{err: ctx.Err()}
		}
		tr := scriptedTracer(Hooks{}, &scripted{answer: hang})
		go tr.Run()
		tr.session()
		time.Sleep(2 * gather) // it hangs
		for range 3 * batch {
			tr.session()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		tr.Stop(ctx)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the stop took %v, want 2s", took)
		}
		if s := tr.Stats(); s.Dropped["not_sent"] != 3*batch+1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTurnedOffWhileSomethingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o told
		tr := scriptedTracer(o.hooks(), &scripted{})
		go tr.Run()
		tr.session()
		tr.Configure(Config{})
		if s := tr.Begin(nil, nil, noon); s != nil {
			t.Error("a session is traced that began after")
		}
		time.Sleep(2 * gather)
		synctest.Wait()
		if s := tr.Stats(); s.On || s.Failing || s.Dropped["not_sent"] != 1 || len(o.failed) != 0 {
			t.Errorf("%+v, %+v", s, o)
		}
		tr.stopNow()
	})
}

func TestWhatTheAnswersOfAReceiverMean(t *testing.T) {
	f := func(answer func(http.ResponseWriter), retry bool, after time.Duration, want string) {
		t.Helper()
		receiver := wiretest.NewReceiver(t)
		receiver.Answer(answer)
		err := newClient(Config{Endpoint: receiver.URL()}).UploadTraces(t.Context(), nil)
		var again *retryError
		if errors.As(err, &again) != retry || retry && again.after != after {
			t.Errorf("%v: worth a retry after %v, want %v, %v", err, again, retry, after)
		}
		if got := fmt.Sprint(err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte("sk-test-never-repeated"))
		}
	}
	f(func(http.ResponseWriter) {}, false, 0, "<nil>")
	f(status(400), false, 0, "the receiver answers 400 Bad Request")
	f(status(401), false, 0, "the receiver answers 401 Unauthorized")
	f(status(307, "Location", "http://elsewhere.invalid/"), false, 0, "the receiver answers 307 Temporary Redirect")
	f(status(429, "Retry-After", "7"), true, 7*time.Second, "the receiver answers 429 Too Many Requests")
	f(status(503, "Retry-After", "tomorrow"), true, 0, "the receiver answers 503 Service Unavailable")
	f(func(w http.ResponseWriter) { _, _ = w.Write([]byte{0x0a, 4, 0x08, 3, 0x12, 0}) }, false, 0, "the receiver refused 3 spans")
	f(func(w http.ResponseWriter) { _, _ = w.Write([]byte{0x0a, 2, 0x12, 0}) }, false, 0, "<nil>")
	f(func(w http.ResponseWriter) { _, _ = w.Write([]byte{0x0a, 200}) }, false, 0, "<nil>")
	f(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, true, 0, "EOF")
}

func FuzzPartial(f *testing.F) {
	f.Add([]byte{0x0a, 4, 0x08, 3, 0x12, 0})
	f.Add([]byte{0x12, 1, 0, 0x0a, 2, 0x08, 0x80})
	f.Fuzz(func(t *testing.T, answer []byte) {
		var p *partialError
		if err := partial(answer); err != nil && (!errors.As(err, &p) || p.refused <= 0) {
			t.Errorf("%x: %v", answer, err)
		}
	})
}
