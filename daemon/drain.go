package daemon

import (
	"errors"
	"sync"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rtd-project/rtd/pool"
)

// errStopping: the daemon is past the point where it can be resumed.
var errStopping = errors.New("the daemon is stopping")

// drainer is the state behind `rtctl drain`: new clients are refused, idle upstream sessions closed and live sessions
// given time, while the process stays. A stop begins the same way and never ends it.
type drainer struct {
	mu       sync.Mutex
	current  *drain // nil while serving
	stopping bool
}

// drain is one drain, from its begin to resume.
type drain struct {
	begun   time.Time
	ended   uint64              // sessions that had ended by themselves when it began
	resumed chan struct{}       // closed by resume
	over    chan struct{}       // closed once the deadline has had its effect: who is left was told to go
	paused  map[*pool.Pool]bool // pools an operator wants paused: resume leaves them so. Guarded by drainer.mu

	mu     sync.Mutex
	forced int
	next   time.Time // earliest deadline that has not forced yet; zero: none is left
}

// beginDrain starts a drain, or joins the one there is.
func (d *Daemon) beginDrain() *drain {
	d.drains.mu.Lock()
	defer d.drains.mu.Unlock()
	if d.drains.current != nil {
		return d.drains.current
	}
	dr := &drain{
		begun: time.Now(), ended: d.endedAlone.Load(), resumed: make(chan struct{}), over: make(chan struct{}), paused: map[*pool.Pool]bool{},
	}
	d.drains.current = dr
	d.sessions.close()
	d.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	for _, p := range d.pools.List() {
		dr.paused[p] = p.Stats().Paused
		p.Drain()
	}
	d.log.Info("draining", "sessions", d.sessions.len())
	return dr
}

// setPaused does verb, an operator's pause or resume of one pool, and remembers it over a drain of the daemon.
func (d *Daemon) setPaused(p *pool.Pool, paused bool, verb func()) {
	d.drains.mu.Lock()
	defer d.drains.mu.Unlock()
	if d.drains.current != nil {
		d.drains.current.paused[p] = paused
	}
	verb()
}

// forcedSettle is how long a drain waits after its deadline for those it forced: most peers answer a Close at once, and
// then none of them is left when it reports. Those that do not answer are cut off after Config.CloseTimeout.
const forcedSettle = 250 * time.Millisecond

// forceAt ends the sessions that are left at a deadline, unless the drain was resumed before.
func (d *Daemon) forceAt(dr *drain, deadline time.Time) {
	dr.mu.Lock()
	if dr.next.IsZero() || deadline.Before(dr.next) {
		dr.next = deadline
	}
	dr.mu.Unlock()
	select {
	case <-dr.resumed:
	case <-d.sessions.empty():
	case <-d.stopping:
	case <-time.After(time.Until(deadline)):
		d.force(dr)
		select {
		case <-d.sessions.empty():
		case <-time.After(forcedSettle):
		}
		dr.end()
	}
}

// end says that the deadline has had its effect.
func (dr *drain) end() {
	dr.mu.Lock()
	defer dr.mu.Unlock()
	if !dr.isOver() {
		close(dr.over)
	}
}

func (dr *drain) isOver() bool {
	select {
	case <-dr.over:
		return true
	default:
		return false
	}
}

// force sends 1001 to both ends of every session that is left.
func (d *Daemon) force(dr *drain) {
	dr.mu.Lock()
	defer dr.mu.Unlock()
	dr.next = time.Time{}
	for _, s := range d.sessions.list() {
		if s.goAway() {
			dr.forced++
		}
	}
	if dr.forced > 0 {
		d.log.Warn("sessions closed by the drain deadline", "forced", dr.forced)
	}
}

// resume ends a drain: clients are let in and pools warm again. Without a drain it does nothing.
func (d *Daemon) resume() error {
	d.drains.mu.Lock()
	defer d.drains.mu.Unlock()
	dr := d.drains.current
	switch {
	case d.drains.stopping:
		return errStopping
	case dr == nil:
		return nil
	}
	d.drains.current = nil
	close(dr.resumed)
	for _, p := range d.pools.List() {
		if !dr.paused[p] {
			p.Resume()
		}
	}
	d.sessions.open()
	d.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	d.log.Info("resumed")
	return nil
}

// A stop has four steps, each bounded:
//
//  1. Readiness goes off, new connects get 503 with Retry-After, idle upstream sessions are closed with 1001.
//  2. Live sessions may end by themselves until Grace − CloseTimeout has passed, or Hurry is called.
//  3. The rest get a Close frame 1001 on both legs and CloseTimeout to answer it.
//  4. Listeners, control streams and pollers end.

// Hurry makes a stop in progress, or the next one, skip the wait for live sessions.
func (d *Daemon) Hurry() { d.hurryOnce.Do(func() { close(d.hurry) }) }

// drainForStop is steps 1 to 3. It returns how many sessions had to be closed, and when what is left of their closing
// handshakes, and of those of idle sessions, has had its time.
func (d *Daemon) drainForStop() (forced int, closeBy time.Time) {
	d.drains.mu.Lock()
	d.drains.stopping = true
	d.drains.mu.Unlock()
	dr := d.beginDrain()
	grace, closing := d.current().cfg.Grace, d.current().cfg.CloseTimeout
	select {
	case <-d.sessions.empty():
		return dr.forcedSoFar(), time.Now().Add(closing)
	case <-d.hurry:
	case <-time.After(grace - closing):
	}
	d.force(dr)
	closeBy = time.Now().Add(closing)
	select {
	case <-d.sessions.empty():
	case <-time.After(closing):
	}
	return dr.forcedSoFar(), closeBy
}

func (dr *drain) forcedSoFar() int {
	dr.mu.Lock()
	defer dr.mu.Unlock()
	return dr.forced
}
