package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/pool"
)

// session is one client and its upstream, from the 101 to the last byte. After Adopt the poller that has its sockets owns
// progress and end; of the rest nothing changes, or it is atomic.
type session struct {
	heard    atomic.Int64 // when the last bytes of a message came that we were told of, on the relay's clock, ns
	progress progress     // the poller's

	*admission
	daemon   *Daemon
	id       string
	model    string
	client   netip.AddrPort
	pool     *pool.Pool // nil on a bypass
	bypassed *bypass    // nil on none
	route    *route
	lease    *pool.Lease // nil on a bypass
	upstream *warm
	accepted time.Time
	admitted time.Duration    // accept → authenticated and routed
	totals   *stats.Aggregate // of its target
	ready    atomic.Int64     // accepted → 101 about to be written, ns
	leaving  atomic.Bool      // told to go away
	warned   atomic.Bool      // told that it will be ended
	over     atomic.Bool      // both sockets are closed: what the poller owned is nobody's any more and does not change
	shown    bool             // watchers know of it; guarded by watchers.mu
	result   stats.Result
	end      *ending // the poller's, set by End
}

// ending is how and when a session ended.
type ending struct {
	relay.End
	at time.Time
}

// again is a session of the same request that has no upstream yet.
func (s *session) again() *session {
	return &session{admission: s.admission, daemon: s.daemon, id: s.id, model: s.model, client: s.client, pool: s.pool, route: s.route, accepted: s.accepted, admitted: s.admitted}
}

// End implements relay.Handler: both sockets are closed. The poller must not wait for a log, so the rest is finish's.
func (s *session) End(e relay.End) {
	s.end = &ending{e, time.Now()}
	s.turnsEnded()
	s.over.Store(true)
	if s.lease != nil {
		s.lease.Release()
	}
	s.release(true)
	s.daemon.finished.Add(1)
	if !s.leaving.Load() {
		s.daemon.endedAlone.Add(1)
	}
	s.daemon.sessions.remove(s)
	s.daemon.ended.push(s)
}

// finish tells who watches, and writes the one line of a finished session.
func (s *session) finish() {
	defer s.hidden.Release()
	s.daemon.watchers.ended(s)
	c, p := s.end.Counters, s.progress.copy()
	args := []any{
		"session", s.id, "client", s.client, "key", s.key, "model", s.model, "upstream", s.upstream.info.ID, "pool", s.result.String(),
		"ready", time.Duration(s.ready.Load()), "duration", time.Since(s.accepted).Round(time.Millisecond),
		"turns", p.whole.count, "frames_up", c.Frames[relay.Up], "frames_down", c.Frames[relay.Down],
		"bytes_up", c.Bytes[relay.Up], "bytes_down", c.Bytes[relay.Down],
		"ended_by", s.end.By.String(), "code", int(s.end.Code),
	}
	args = append(args, s.traceField()...)
	if s.requestID != "" {
		args = append(args, "request", s.requestID)
	}
	if p := s.upstream.preset; p != nil {
		args = append(args, "preset", p.Name)
	}
	if s.subject != "" {
		args = append(args, "certificate", s.subject)
	}
	if s.end.Reason != "" {
		args = append(args, "reason", s.end.Reason)
	}
	if s.end.Err != nil {
		args = append(args, "error", s.end.Err)
	}
	s.daemon.log.Info("session ended", s.daemon.shown(args...)...)
	s.traceEnded(&p)
}

// connect routes the request, takes or dials an upstream for it and joins the client to that. adopt renders the 101 and hands
// the client's socket over; on an error the client is still there to be answered, unless it is errClientGone.
func (s *session) connect(ctx context.Context, routes *routes, ask dialect.Ask, adopt func(*session) error) (err error) {
	if s.route, s.model, err = routes.find(ask); err != nil {
		return err
	}
	s.admitted = time.Since(s.accepted)
	if s.own {
		return s.connectOwn(ctx, ask, adopt)
	}
	target, err := s.route.targetOf(s.route.endpoint.Upstream.Upstream, ask)
	if err != nil {
		return err
	}
	if target.Bypass != "" {
		return s.bypass(ctx, target, adopt)
	}
	if s.pool, err = s.route.poolFor(s.daemon.pools, ask, target); err != nil {
		return err
	}
	return s.take(ctx, adopt)
}

// take joins the client to a session of s.pool.
func (s *session) take(ctx context.Context, adopt func(*session) error) (err error) {
	for ; ; s = s.again() { // who listed the session before reads on in the old one
		s.lease, err = s.pool.Take(ctx)
		if err != nil {
			return err
		}
		s.upstream, s.result = s.lease.Conn().(*warm), results[s.lease.Result()]
		err = s.join(adopt)
		if errors.Is(err, relay.ErrGone) {
			s.lease.Dead(err)
			if s.result == stats.Miss { // fresh and dead: another dial would fare no better
				return err
			}
			continue
		}
		if err != nil {
			s.lease.Release()
			return err
		}
		return nil
	}
}

// bypass is why a session went past the pools, in words, and what its target is called.
type bypass struct{ reason, target string }

// bypass dials for this client alone what no pool holds.
func (s *session) bypass(ctx context.Context, target dialect.Target, adopt func(*session) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, orDefault(s.route.pool.DialTimeout, DefaultReadyTimeout))
	s.pool = nil // of an attempt before a reload
	s.result, s.bypassed = stats.Bypass, &bypass{s.daemon.redact.String(target.Bypass), target.Name}
	s.traceDial(target.URL.Host)
	s.upstream, err = s.route.endpoint.dial(ctx, target, pool.Lifeline{})
	cancel() // it asks its parent, which must not watch a socket that has changed hands
	if err != nil {
		return err
	}
	return s.join(adopt)
}

// join enters s in the registry for as long as the relay has both its sockets.
func (s *session) join(adopt func(*session) error) error {
	s.totals = s.daemon.stats.Of(s.target())
	if !s.daemon.sessions.add(s) {
		s.upstream.relay.Close(ws.StatusGoingAway, "")
		return errDraining
	}
	s.traceUpstream()
	if err := adopt(s); err != nil {
		s.daemon.sessions.remove(s)
		if errors.Is(err, relay.ErrGone) {
			return s.upstream.died(err)
		}
		s.upstream.relay.Close(ws.StatusGoingAway, "")
		if errors.Is(err, relay.ErrResources) {
			return err
		}
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// Opened implements relay.Handler: the client is about to get its 101, and may then ask for what is known of its session.
func (s *session) Opened() {
	ready := time.Since(s.accepted)
	s.ready.Store(int64(ready))
	s.daemon.accepted.Add(1)
	s.daemon.watchers.opened(s)
	s.count(stats.Sessions, 1)
	s.record(stats.PhaseAccept, s.admitted)
	s.record(stats.PhaseReady, ready)
	if s.lease != nil {
		s.record(stats.PhasePoolWait, s.lease.Wait())
	}
	if s.result == stats.Hit {
		return // its dial was over before the client came
	}
	t := s.upstream.timing
	s.record(stats.PhaseDNS, t.DNS)
	s.record(stats.PhaseTCP, t.TCP)
	s.record(stats.PhaseTLS, t.TLS)
	s.record(stats.PhaseUpgrade, t.Upgrade)
	s.record(stats.PhaseDial, s.upstream.dialTime())
	s.record(stats.PhaseUpstreamReady, s.upstream.ready)
}

// goAway asks both ends of a session to leave, the first time it is called.
func (s *session) goAway() (first bool) {
	if !s.leaving.CompareAndSwap(false, true) {
		return false
	}
	s.upstream.relay.Close(ws.StatusGoingAway, "the gateway is stopping")
	return true
}
