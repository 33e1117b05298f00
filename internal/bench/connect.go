package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrConfig is wrapped by every error that a change of the configuration would cure.
var ErrConfig = errors.New("bad configuration")

// Defaults of Config.
const (
	DefaultTimeout = 20 * time.Second
	DefaultMaxLate = 25 * time.Millisecond
)

// maxQueue bounds the calls in flight of an open loop.
const maxQueue = 4096

// Config says what Connect does.
type Config struct {
	// Legs are where calls go, at least one, with distinct names. They take turns, call by call.
	Legs []Target
	// Calls is how many each leg gets in each repeat. Default 100.
	Calls int
	// Concurrency is how many calls are in flight at most, over all legs. Default 10; in an open loop all, up to 4096.
	Concurrency int
	// Rate is how many calls begin per second, over all legs, whether earlier ones are over or not: an open loop.
	// Default 0: a closed one, in which a call begins when another is over.
	Rate float64
	// Timeout bounds one call, from its dial to its first audio. Default DefaultTimeout.
	Timeout time.Duration
	// Warmup is how many calls of each leg come first and are not counted. Default 0.
	Warmup int
	// Repeat is how often the whole is done. The figures are over all, the spread is between them. Default 1.
	Repeat int
	// MaxLate is how late the generator may be at p99 before its run is invalid. Default DefaultMaxLate.
	MaxLate time.Duration
	// Progress, when set, is told now and then how many of all calls are over, by one goroutine at a time.
	Progress func(done, total int)
}

func (c *Config) complete() error {
	seen := map[string]bool{}
	for _, leg := range c.Legs {
		if seen[leg.Name] {
			return fmt.Errorf("%w: two legs are named %q", ErrConfig, leg.Name)
		}
		seen[leg.Name] = true
	}
	if c.Calls == 0 {
		c.Calls = 100
	}
	if c.Concurrency == 0 {
		if c.Concurrency = 10; c.Rate > 0 {
			c.Concurrency = maxQueue
		}
	}
	if c.Repeat == 0 {
		c.Repeat = 1
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxLate == 0 {
		c.MaxLate = DefaultMaxLate
	}
	switch {
	case len(c.Legs) == 0:
		return fmt.Errorf("%w: there is no endpoint to call", ErrConfig)
	case c.Calls < 0 || c.Concurrency < 0 || c.Warmup < 0 || c.Repeat < 0:
		return fmt.Errorf("%w: calls, concurrency, warm-up and repeats must not be negative", ErrConfig)
	case !(c.Rate >= 0 && c.Rate <= 1e6):
		return fmt.Errorf("%w: the rate must be from 0 to 1000000 calls a second", ErrConfig)
	case c.Timeout < 0 || c.MaxLate < 0:
		return fmt.Errorf("%w: the timeout and the lateness must be positive", ErrConfig)
	}
	return nil
}

// Connect makes the calls and reports on them. When ctx ends it stops: calls in flight are dropped, and the report says
// that it is about those that were over. The error wraps ErrConfig; whatever goes wrong with a call is in the report.
func Connect(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	r := runner{cfg: cfg, call: func(ctx context.Context, leg int, due time.Time) sample {
		return cfg.Legs[leg].call(ctx, due, cfg.Timeout)
	}}
	return r.run(ctx), nil
}

// runner is Connect with the call itself left open.
type runner struct {
	cfg  Config
	call func(ctx context.Context, leg int, due time.Time) sample
	done atomic.Int64
}

func (r *runner) run(ctx context.Context) *Report {
	defer r.follow()()
	started := time.Now()
	if r.cfg.Warmup > 0 {
		r.round(ctx, r.cfg.Warmup, nil)
	}
	w := startWatch()
	var runs [][]*tally
	for range r.cfg.Repeat {
		if ctx.Err() != nil {
			break
		}
		runs = append(runs, r.round(ctx, r.cfg.Calls, w))
	}
	return report(&r.cfg, started, runs, w.stop(), ctx.Err() != nil)
}

// round gives every leg as many calls and returns a tally for each. A round without a watch warms up.
func (r *runner) round(ctx context.Context, calls int, w *watch) []*tally {
	legs := len(r.cfg.Legs)
	tallies := make([]*tally, legs)
	for i := range tallies {
		tallies[i] = newTally()
	}
	p := plan{calls: calls * legs, workers: r.cfg.Concurrency}
	if r.cfg.Rate > 0 {
		p.interval = time.Duration(float64(time.Second) / r.cfg.Rate)
	}
	late, queued := func(time.Duration) {}, func(time.Duration) {}
	if w != nil {
		late, queued = w.wasLate, w.wasQueued
	}
	p.run(ctx, func(ctx context.Context, n int, due time.Time) {
		leg := (n + n/legs) % legs // each round in another order, so that none always follows the same one
		s := r.call(ctx, leg, due)
		if ctx.Err() != nil && s.cause != "" {
			return // cut off, not failed
		}
		tallies[leg].add(&s)
		r.done.Add(1)
	}, late, queued)
	return tallies
}

// follow tells the progress until the function it returns is called.
func (r *runner) follow() (stop func()) {
	if r.cfg.Progress == nil {
		return func() {}
	}
	total := len(r.cfg.Legs) * (r.cfg.Warmup + r.cfg.Calls*r.cfg.Repeat)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				r.cfg.Progress(int(r.done.Load()), total)
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}
