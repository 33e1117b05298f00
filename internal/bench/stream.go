package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/stats"
)

// echoWait is how long the last echoes may take.
const echoWait = 5 * time.Second

// StreamConfig says what Stream does.
type StreamConfig struct {
	Target Target
	// Sessions is how many microphones speak at a time. Default 1.
	Sessions int
	// Period is the length of a chunk and the time between two. Default 20 ms; whole milliseconds.
	Period time.Duration
	// Duration is how long each speaks. Default 1 s.
	Duration time.Duration
	// Timeout bounds the opening of one session. Default DefaultTimeout.
	Timeout time.Duration
}

func (c *StreamConfig) complete() error {
	if c.Sessions == 0 {
		c.Sessions = 1
	}
	if c.Period == 0 {
		c.Period = 20 * time.Millisecond
	}
	if c.Duration == 0 {
		c.Duration = time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	switch {
	case c.Sessions < 0 || c.Timeout < 0:
		return fmt.Errorf("%w: sessions and the timeout must be positive", ErrConfig)
	case c.Period < time.Millisecond || c.Period%time.Millisecond != 0:
		return fmt.Errorf("%w: the period must be whole milliseconds", ErrConfig)
	case c.Duration < c.Period:
		return fmt.Errorf("%w: the duration must not be shorter than a period", ErrConfig)
	}
	return nil
}

// StreamReport is what Stream found out. Figures are over the chunks of all sessions, in milliseconds.
type StreamReport struct {
	Sessions int               `json:"sessions"`
	Opened   int               `json:"opened"`
	Failures map[string]uint64 `json:"failures"` // of sessions, by cause
	Up       Flow              `json:"up"`
	Down     Flow              `json:"down"`
	// UpFromDue and UpFromSent run to the upstream's read, from when a chunk was due and from when it was written.
	UpFromDue  Figures `json:"up_from_due"`
	UpFromSent Figures `json:"up_from_sent"`
	// DownFromSent runs from the upstream's write to the client's read, Round from the client's write to its read.
	DownFromSent Figures `json:"down_from_sent"`
	Round        Figures `json:"round"`
	// UpJitter and DownJitter are |distance of two arrivals in a row - period|.
	UpJitter   Figures `json:"up_jitter"`
	DownJitter Figures `json:"down_jitter"`
	// Late is how long after its time a chunk was written.
	Late      Figures   `json:"late"`
	Generator Generator `json:"generator"`
}

// Stream opens the sessions, lets a microphone speak on each, staggered over a period, and reports what became of the
// chunks. The upstream must send stamped chunks back: the scripted one with Echo does. When ctx ends, so does the speaking.
func Stream(ctx context.Context, cfg StreamConfig) (*StreamReport, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	r := &StreamReport{Sessions: cfg.Sessions, Failures: map[string]uint64{}}
	chunks := int(cfg.Duration / cfg.Period)
	sockets := openAll(ctx, &cfg.Target, cfg.Sessions, cfg.Timeout, (*socket).mute, func(cause string) { r.Failures[cause]++ })
	r.Opened = len(sockets)
	w := startWatch()
	var (
		mu    sync.Mutex // guards what follows and r.Failures
		times timings
		late  stats.Histogram
		wg    sync.WaitGroup
	)
	start := time.Now().Add(50 * time.Millisecond) // all goroutines run before the first speaks
	for i, s := range sockets {
		wg.Go(func() {
			m := newMicrophone(uint32(i), s, cfg.Period, chunks)
			err := m.run(ctx, start.Add(cfg.Period*time.Duration(i)/time.Duration(len(sockets))))
			up, down := m.track.flows(uint64(m.sent.Load()))
			mu.Lock()
			defer mu.Unlock()
			if err != nil && ctx.Err() == nil {
				r.Failures["stream: "+cause(ctx, err)]++
			}
			r.Up.add(up)
			r.Down.add(down)
			times.merge(&m.track.times)
			late.Merge(&m.track.late)
		})
	}
	wg.Wait()
	r.Generator = w.stop()
	r.UpFromDue, r.UpFromSent, r.DownFromSent = figures(&times.upDue), figures(&times.upSent), figures(&times.down)
	r.Round, r.UpJitter, r.DownJitter, r.Late = figures(&times.round), figures(&times.upGap), figures(&times.downGap), figures(&late)
	return r, nil
}

// run speaks and listens, and closes the session. The error is what ended it early.
func (m *microphone) run(ctx context.Context, start time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer m.s.abort()
	defer m.s.within(ctx)()
	heard := make(chan error, 1)
	go func() {
		err := m.listen(start)
		if err != nil {
			cancel(err) // nobody hears the rest
		}
		heard <- err
	}()
	spoken := m.speak(ctx, start)
	if spoken == nil {
		timer := time.AfterFunc(echoWait, func() { cancel(errTimeout) })
		defer timer.Stop()
	} else {
		cancel(spoken)
	}
	err := <-heard
	if spoken == nil && err == nil {
		_ = m.s.writeClose(ws.StatusNormalClosure) // a farewell; nobody waits for the answer
	}
	return errors.Join(spoken, err)
}

// opening is how many sessions are opened at a time.
const opening = 64

// openAll opens n sessions, prepares each, and returns those that are ready. failed is told the cause for each of the
// others, one at a time.
func openAll(ctx context.Context, t *Target, n int, timeout time.Duration, prepare func(*socket) error, failed func(cause string)) []*socket {
	var (
		mu      sync.Mutex
		sockets []*socket
	)
	none := func(time.Duration) {}
	plan{calls: n, workers: opening}.run(ctx, func(ctx context.Context, _ int, _ time.Time) {
		s, err := t.open(ctx, timeout, prepare)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed(err.Error())
			return
		}
		sockets = append(sockets, s)
	}, none, none)
	return sockets
}

// open dials, waits for session.created and prepares the session. The error is a cause as a call has it.
func (t *Target) open(ctx context.Context, timeout time.Duration, prepare func(*socket) error) (*socket, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	s, err := t.dial(ctx)
	if err != nil {
		return nil, errors.New("dial: " + cause(ctx, err))
	}
	stop := s.within(ctx)
	if err = s.await(dialect.EventSessionCreated); err == nil && prepare != nil {
		err = prepare(s)
	}
	if !stop() && err == nil { // the deadline of the past is on the socket, or will be
		err = context.Cause(ctx)
	}
	if err != nil {
		s.abort()
		return nil, errors.New("session: " + cause(ctx, err))
	}
	return s, nil
}
