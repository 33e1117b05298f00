package pool

import (
	"context"
	"fmt"
	"time"
)

// dial is one DialFunc in flight. Without an owner it warms the pool, unless its session was dropped.
type dial struct {
	link   link[dial]
	lease  *Lease
	owner  *waiter
	cancel context.CancelFunc
}

func (d *dial) warms() bool { return d.owner == nil && !d.lease.dropped }

// start begins a dial, which the caller gives an owner or counts as warming.
func (p *Pool) start(now time.Time) *dial {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.DialTimeout)
	l := &Lease{pool: p, started: now, generation: p.current}
	l.link.value = l
	d := &dial{lease: l, cancel: cancel}
	d.link.value = d
	p.dials.push(&d.link)
	p.counts.Dials++
	dialFunc := p.cfg.Dial
	p.tasks.Go(func() {
		conn, err := dialFunc(ctx, Lifeline{l})
		cancel()
		p.finish(d, conn, err)
	})
	return d
}

// disown leaves a dial to the pool if that wants it, and else cancels it.
func (p *Pool) disown(d *dial) {
	d.owner = nil
	p.warming++
	if p.closed || p.paused || d.lease.generation != p.current || p.deficit() < 0 {
		p.drop(d)
	}
}

// drop cancels a warming dial. It counts as dialling until its DialFunc has returned.
func (p *Pool) drop(d *dial) {
	if d.warms() {
		p.warming--
		d.lease.dropped = true
		d.cancel()
	}
}

func (p *Pool) dropWarming() {
	for d := range p.dials.all() {
		p.drop(d)
	}
}

// finish takes the outcome of a dial.
func (p *Pool) finish(d *dial, conn Conn, err error) {
	p.mu.Lock()
	defer p.unlock()
	now := time.Now()
	l, owner := d.lease, d.owner
	if d.warms() {
		p.warming--
	}
	d.link.remove()
	p.signal()
	if err == nil && conn == nil {
		err = errNoSession
	}
	if err != nil {
		p.lose(d, classify(err, ClassOther), now)
		return
	}
	l.conn, l.born = conn, now
	if l.dead {
		p.lose(d, classify(l.cause, ClassEarlyDeath), now)
		return
	}
	p.observe(now.Sub(l.started))
	l.limits = p.cfg.limits(now, conn.ExpiresAt(), 2*p.slow, p.strata.draw())
	if reached(l.limits.hard, now) {
		// Good enough for a miss, but warming would redial for ever.
		p.fail(now, l.started, &DialError{Class: ClassProtocol, Err: p.stillborn(conn, now)}, false)
	} else {
		p.succeed(now)
	}
	p.place(l, owner, now)
}

// lose ends a dial without a session.
func (p *Pool) lose(d *dial, e *DialError, now time.Time) {
	if d.lease.conn == nil {
		d.lease.state = stateEnded
	} else {
		p.linger(d.lease)
	}
	if d.lease.dropped || p.closed {
		p.counts.DialsCanceled++
		return
	}
	p.fail(now, d.lease.started, e, e.Class == ClassEarlyDeath)
	if d.owner != nil {
		p.settle(d.owner, nil, p.error("take", e))
	}
}

// place gives a new session to a waiter, else to the pool if it has room, in place of one that is due if need be.
func (p *Pool) place(l *Lease, owner *waiter, now time.Time) {
	switch {
	case l.dead:
		p.linger(l)
		p.mourn(l, l.cause)
	case p.closed:
		p.retire(l, ReasonClosed)
	case p.deliver(l, owner, now):
	case l.dropped, l.generation != p.current:
		p.retire(l, ReasonSurplus)
	case reached(l.limits.hard, now):
		p.retire(l, l.limits.reason)
	case p.idle() < p.size:
		p.park(l)
	case p.due.len > 0:
		p.retireDue()
		p.park(l)
	default:
		p.retire(l, ReasonSurplus)
	}
}

func (p *Pool) park(l *Lease) {
	l.state = stateIdle
	p.fresh.push(&l.link)
	p.sweepAt = earlier(p.sweepAt, p.judged(l, l.born))
}

func (p *Pool) stillborn(conn Conn, now time.Time) error {
	return fmt.Errorf("the session expires in %s, within min_remaining %s", conn.ExpiresAt().Sub(now).Round(time.Second), p.cfg.MinRemaining)
}

// observe follows the slowest dial, forgetting old ones by and by.
func (p *Pool) observe(d time.Duration) {
	p.slow = max(d, p.slow-(p.slow-d)/8)
}

// fail counts a failed dial, or an early death as one.
func (p *Pool) fail(now, started time.Time, e *DialError, death bool) {
	p.backoff.fail(now, started, e, death)
	p.counts.failed(now, e)
	if death {
		// A survivor of Probation is looked for from now on.
		p.sweepAt = now
	}
	if p.cfg.Events != nil {
		retry := max(0, p.backoff.next().Sub(now))
		p.pending.events = append(p.pending.events, Event{Kind: EventDialFailed, Err: e, RetryIn: retry})
	}
}

func (p *Pool) succeed(now time.Time) {
	p.counts.DialsSucceeded++
	p.recovered(p.backoff.succeed(now))
}

func (p *Pool) prove(now time.Time) { p.recovered(p.backoff.prove(now)) }

func (p *Pool) recovered(yes bool) {
	if yes && p.cfg.Events != nil {
		p.pending.events = append(p.pending.events, Event{Kind: EventRecovered})
	}
}
