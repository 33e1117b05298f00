package pool

import (
	"context"
	"time"
)

// waiter is a Take that found nothing idle. It owns one dial and is served by whichever finishes first, in order of arrival.
type waiter struct {
	link  link[waiter]
	dial  *dial
	start time.Time

	done  chan struct{} // closed when lease or err is set
	lease *Lease
	err   error
}

// Take hands out the oldest usable idle session at once; one that waits for its replacement goes before that. Without any
// it dials, even while warming backs off, and returns the session of the first dial of the pool to finish, its own or a
// warming one. Takes that wait are served in order of arrival.
//
// Errors: ErrClosed; ErrExhausted when a dial would exceed MaxConnections and there is no warming dial to join; *DialError
// when its own dial failed or, with the time left in RetryAfter, while the upstream's Retry-After or a quota back-off
// forbids any; the cause of ctx when that ends first. Its dial then goes on for the pool if that wants it.
func (p *Pool) Take(ctx context.Context) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, p.error("take", context.Cause(ctx))
	}
	now := time.Now()
	p.mu.Lock()
	p.counts.Takes++
	if l := p.popIdle(now); l != nil {
		p.counts.Hits++
		p.activate(l, Hit, now, 0)
		p.unlock()
		return l, nil
	}
	p.counts.Misses++
	w, err := p.enqueue(now)
	p.unlock()
	if err != nil {
		return nil, p.error("take", err)
	}
	select {
	case <-w.done:
		return w.lease, w.err
	case <-ctx.Done():
		return nil, p.abandon(ctx, w)
	}
}

// popIdle removes the next idle session that is within its limits, retiring those that are not.
func (p *Pool) popIdle(now time.Time) *Lease {
	for {
		l := p.next()
		if l == nil {
			return nil
		}
		if !reached(l.limits.hard, now) {
			l.link.remove()
			return l
		}
		p.retire(l, l.limits.reason)
	}
}

// next is the idle session to hand out: one that waits for its replacement, or would be wasted otherwise, else the oldest.
func (p *Pool) next() *Lease {
	if l := p.due.front(); l != nil {
		return l
	}
	return p.fresh.front()
}

func (p *Pool) activate(l *Lease, r Result, now time.Time, wait time.Duration) {
	l.state, l.result, l.taken, l.wait = stateActive, r, now, wait
	p.active++
	if !p.paused {
		p.signal()
	}
}

// enqueue adds a waiter with a dial of its own or, without room for one, with a warming dial.
func (p *Pool) enqueue(now time.Time) (*waiter, error) {
	if p.closed {
		return nil, ErrClosed
	}
	if e := p.backoff.refusal(now); e != nil {
		p.counts.Refused++
		return nil, e
	}
	var d *dial
	if p.room() {
		d = p.start(now)
	} else if d = p.claim(); d == nil {
		p.counts.Exhausted++
		return nil, ErrExhausted
	}
	w := &waiter{dial: d, start: now, done: make(chan struct{})}
	w.link.value = w
	d.owner = w
	p.waiters.push(&w.link)
	return w, nil
}

// claim takes the warming dial that started first from the pool, or returns nil.
func (p *Pool) claim() *dial {
	for d := range p.dials.all() {
		if d.warms() {
			p.warming--
			return d
		}
	}
	return nil
}

// deliver hands a session that was never idle to the waiter that came first, and reports whether there was one. from is
// the owner of the dial that made it: if another one is served, from inherits that one's dial.
func (p *Pool) deliver(l *Lease, from *waiter, now time.Time) bool {
	w := p.waiters.front()
	if w == nil {
		return false
	}
	p.activate(l, Miss, now, now.Sub(w.start))
	p.settle(w, l, nil)
	switch {
	case w == from:
	case from != nil:
		from.dial, w.dial.owner = w.dial, from
	default:
		p.disown(w.dial)
	}
	return true
}

// settle ends the wait of w.
func (p *Pool) settle(w *waiter, l *Lease, err error) {
	w.link.remove()
	w.lease, w.err = l, err
	close(w.done)
}

// abandon ends a Take whose ctx ended. A session that was delivered in the same moment is passed on: nobody has seen it.
func (p *Pool) abandon(ctx context.Context, w *waiter) error {
	p.mu.Lock()
	defer p.unlock()
	p.counts.Canceled++
	if l := w.lease; l != nil {
		p.end(l)
		l.dropped = p.paused // which is no time to add to the idle ones
		p.place(l, nil, time.Now())
	} else if w.err == nil {
		w.link.remove()
		p.disown(w.dial)
	}
	return p.error("take", context.Cause(ctx))
}
