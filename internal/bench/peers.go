package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// PeersConfig says what Peers does.
type PeersConfig struct {
	// Rtctl and Rtd are the programs; Rtctl runs the scripted upstream.
	Rtctl, Rtd string
	// Peers are what is measured, from PeerNames. Default all.
	Peers []string
	// Idle is how many idle sessions the memory is measured with. Default 1000.
	Idle int
	// Sessions is how many microphones speak through a peer, and as many past it at the same time. Default 25.
	Sessions int
	// Period and Duration of the speech are those of StreamConfig. Default 20 ms and 5 s.
	Period, Duration time.Duration
	// Repeat is how often each peer is measured; they take turns. Default 3.
	Repeat int
	// MaxLate is how late the generator may be at p99 before a run is invalid. Default DefaultMaxLate.
	MaxLate time.Duration
	// Progress, when set, is told what is being done.
	Progress func(text string)
}

func (c *PeersConfig) complete() error {
	if len(c.Peers) == 0 {
		c.Peers = PeerNames
	}
	for i, name := range c.Peers {
		if !slices.Contains(PeerNames, name) {
			return fmt.Errorf("%w: there is no peer %q", ErrConfig, name)
		}
		if slices.Contains(c.Peers[:i], name) {
			return fmt.Errorf("%w: the peer %q is named twice", ErrConfig, name)
		}
	}
	if c.Idle == 0 {
		c.Idle = 1000
	}
	if c.Sessions == 0 {
		c.Sessions = 25
	}
	if c.Period == 0 {
		c.Period = 20 * time.Millisecond
	}
	if c.Duration == 0 {
		c.Duration = 5 * time.Second
	}
	if c.Repeat == 0 {
		c.Repeat = 3
	}
	if c.MaxLate == 0 {
		c.MaxLate = DefaultMaxLate
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Idle < 0 || c.Repeat < 0 || c.MaxLate < 0 {
		return fmt.Errorf("%w: sessions, repeats and lateness must be positive", ErrConfig)
	}
	speech := StreamConfig{Sessions: c.Sessions, Period: c.Period, Duration: c.Duration}
	return speech.complete()
}

const (
	// primed is how many sessions come and go before the baseline, so that it holds what a program keeps after its first.
	primed = 50
	// settle is how long a program is left alone before its memory is read: allocators and collectors tidy up late.
	settle = 1500 * time.Millisecond
	// spare is the room a proxy gets beyond the sessions: those of the load before may still be closing.
	spare = 200
)

// Peers puts the same loads through every peer, in turns, each started anew for each turn, and reports what each turn
// gave. A peer that is not installed is an error before anything starts. When ctx ends, so does the run, with its error.
func Peers(ctx context.Context, cfg PeersConfig) (*PeersReport, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	programs := map[string]string{PeerRTD: cfg.Rtd}
	for _, name := range cfg.Peers {
		if name == PeerRTD {
			continue
		}
		program, err := FindPeer(name)
		if err != nil {
			return nil, err
		}
		programs[name] = program
	}
	r := newPeersReport(&cfg, programs)
	for turn := range cfg.Repeat {
		if err := r.turn(ctx, &cfg, programs, turn); err != nil {
			return nil, err
		}
	}
	r.compare()
	return r, nil
}

// turn measures every peer, beginning with another one each time.
func (r *PeersReport) turn(ctx context.Context, cfg *PeersConfig, programs map[string]string, turn int) error {
	rig, err := newRig()
	if err != nil {
		return err
	}
	defer rig.Close()
	upstream, err := rig.upstream(ctx, cfg.Rtctl, "--echo")
	if err != nil {
		return err
	}
	direct, err := Endpoint(upstream, rigModel)
	if err != nil {
		return err
	}
	for i := range cfg.Peers {
		i = (i + turn) % len(cfg.Peers)
		cfg.Progress(fmt.Sprintf("turn %d of %d: %s", turn+1, cfg.Repeat, cfg.Peers[i]))
		m, err := r.measure(ctx, cfg, rig, cfg.Peers[i], programs[cfg.Peers[i]], Target{Name: LegDirect, URL: direct})
		if err != nil {
			return fmt.Errorf("%s: %w", cfg.Peers[i], err)
		}
		r.Peers[i].Turns = append(r.Peers[i].Turns, m)
	}
	return nil
}

// measure starts one peer, puts both loads through it and stops it.
func (r *PeersReport) measure(ctx context.Context, cfg *PeersConfig, rig *Rig, name, program string, direct Target) (m Measured, err error) {
	var (
		p        *process
		t        Target
		upstream = direct.shown()
	)
	if name == PeerRTD {
		p, t, err = rig.gateway(ctx, name, program, upstream, "--pool-size", "0")
	} else {
		p, t, err = rig.proxy(ctx, name, program, upstream, max(cfg.Idle, cfg.Sessions)+spare)
	}
	if err != nil {
		return m, err
	}
	defer p.stop()
	g := group(p.pid())
	if m.IdleBytes, err = idle(ctx, t, g, cfg.Idle); err != nil {
		return m, err
	}
	before, err := g.cpu()
	if err != nil {
		return m, err
	}
	through, past, err := r.speak(ctx, cfg, t, direct)
	if err != nil {
		return m, err
	}
	after, err := g.cpu()
	if err != nil {
		return m, err
	}
	m.Frames = through.Up.Arrived + through.Down.Arrived
	m.CPUMicros = micros((after - before).Seconds() * 1e6 / float64(max(m.Frames, 1)))
	m.Round, m.Direct = Latency{through.Round.P50, through.Round.P99}, Latency{past.Round.P50, past.Round.P99}
	m.Added = Latency{micros(m.Round.P50 - m.Direct.P50), micros(m.Round.P99 - m.Direct.P99)}
	return m, nil
}

// idle is the memory that one idle session adds to a group.
func idle(ctx context.Context, t Target, g group, n int) (float64, error) {
	if err := hold(ctx, t, min(primed, n), func() error { return nil }); err != nil {
		return 0, err
	}
	if !sleepUntil(ctx, time.Now().Add(settle)) {
		return 0, context.Cause(ctx)
	}
	baseline, err := g.rss()
	if err != nil {
		return 0, err
	}
	var full uint64
	err = hold(ctx, t, n, func() error {
		if !sleepUntil(ctx, time.Now().Add(settle)) {
			return context.Cause(ctx)
		}
		full, err = g.rss()
		return err
	})
	return micros((float64(full) - float64(baseline)) / float64(n)), err
}

// hold opens n idle sessions, calls f and closes them.
func hold(ctx context.Context, t Target, n int, f func() error) error {
	var failure error
	sockets := openAll(ctx, &t, n, DefaultTimeout, nil, func(cause string) { failure = errors.New(cause) })
	defer func() {
		for _, s := range sockets {
			s.abort()
		}
	}()
	switch {
	case failure != nil:
		return fmt.Errorf("%d of %d sessions did not open: %w", n-len(sockets), n, failure)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return f()
}

// speak puts the paced load through the peer and, at the same time, past it: whatever else the machine does meanwhile
// happens to both.
func (r *PeersReport) speak(ctx context.Context, cfg *PeersConfig, peer, direct Target) (through, past *StreamReport, err error) {
	var (
		wg    sync.WaitGroup
		other error
	)
	wg.Go(func() { past, other = paced(ctx, cfg, direct) })
	through, err = paced(ctx, cfg, peer)
	wg.Wait()
	if err := cmp.Or(err, other); err != nil {
		return nil, nil, err
	}
	for _, why := range through.Generator.saturated(cfg.MaxLate) { // that of the other is the same process
		r.Invalid = append(r.Invalid, peer.Name+": "+why)
	}
	return through, past, nil
}

// paced is one stream of which nothing may be lost: it would have measured something else.
func paced(ctx context.Context, cfg *PeersConfig, t Target) (*StreamReport, error) {
	s, err := Stream(ctx, StreamConfig{Target: t, Sessions: cfg.Sessions, Period: cfg.Period, Duration: cfg.Duration})
	if err != nil {
		return nil, err
	}
	for cause, n := range s.Failures {
		return nil, fmt.Errorf("%s: %d of %d streams failed: %s", t.Name, n, cfg.Sessions, cause)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if lost := s.Up.Lost + s.Down.Lost; lost > 0 {
		return nil, fmt.Errorf("%s: %d of %d chunks were lost", t.Name, lost, s.Up.Sent)
	}
	return s, nil
}
