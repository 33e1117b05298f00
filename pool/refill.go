package pool

import "time"

// sweepGap is the least time between two looks at all idle sessions: a big pool is not swept for each one of them. Take
// checks the limits itself, so a session past them is merely closed this much later.
const sweepGap = 10 * time.Millisecond

// run refills until the pool closes: whenever something has changed, and when the next thing is due.
func (p *Pool) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wakeup:
		case <-timer.C:
		}
		if next := p.refill(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// refill retires what is over, dials what is missing, and returns when to look again; zero: only when woken.
func (p *Pool) refill() time.Time {
	p.mu.Lock()
	defer p.unlock()
	if p.closed {
		return time.Time{}
	}
	now := time.Now()
	p.reap(now)
	if reached(p.sweepAt, now) {
		p.sweep(now)
	}
	p.recovered(p.backoff.freed(now))
	p.warm(now)
	next := p.sweepAt
	if l := p.closing.front(); l != nil {
		next = earlier(next, l.closeBy)
	}
	if p.blocked == SkipBackoff || p.blocked == SkipRetryAfter || p.backoff.owed {
		next = earlier(next, p.backoff.next())
	}
	return next
}

// reap lets go of closed sessions whose Lifeline was not told in time.
func (p *Pool) reap(now time.Time) {
	for l := p.closing.front(); l != nil && reached(l.closeBy, now); l = p.closing.front() {
		l.link.remove()
		l.state = stateEnded
	}
}

// sweep applies the limits to the idle sessions and looks for survivors of Probation.
func (p *Pool) sweep(now time.Time) {
	var next time.Time
	for l := range p.fresh.all() {
		if p.outlived(l, now) {
			p.prove(now)
		}
		if reached(l.limits.due, now) {
			p.makeDue(l)
		} else {
			next = earlier(next, p.judged(l, now))
		}
	}
	for l := range p.due.all() {
		if reached(l.limits.hard, now) {
			p.retire(l, l.limits.reason)
		} else {
			next = earlier(next, l.limits.hard)
		}
	}
	if soonest := now.Add(sweepGap); !next.IsZero() && next.Before(soonest) {
		next = soonest
	}
	p.sweepAt = next
}

// judged is when a fresh session is to be looked at again.
func (p *Pool) judged(l *Lease, now time.Time) time.Time {
	if p.backoff.deaths {
		if at := p.proof(l); now.Before(at) {
			return at
		}
	}
	return l.limits.due
}

// makeDue moves a fresh session among those that wait for a replacement.
func (p *Pool) makeDue(l *Lease) {
	l.link.remove()
	p.due.push(&l.link)
	p.sweepAt = earlier(p.sweepAt, l.limits.hard)
}

// retireDue closes the session that has waited longest for a replacement.
func (p *Pool) retireDue() {
	l := p.due.front()
	if l.generation != p.current {
		p.retire(l, ReasonRecycle)
	} else {
		p.retire(l, l.limits.reason)
	}
}

// warm starts the dials that are missing, as far as it may.
func (p *Pool) warm(now time.Time) {
	skip := SkipNone
	for p.deficit() > 0 {
		if skip = p.obstacle(now); skip != SkipNone {
			break
		}
		p.start(now)
		p.warming++
	}
	p.skipped(skip)
	// Without room the old session has to go first, unless room is about to come by itself.
	if skip == SkipMaxConnections && p.due.len > 0 && p.warming == 0 && p.closing.len == 0 {
		p.retireDue()
	}
}

// obstacle is what keeps warming from starting one more dial.
func (p *Pool) obstacle(now time.Time) Skip {
	b := &p.backoff
	switch {
	case p.paused:
		return SkipPaused
	case now.Before(b.held):
		return SkipRetryAfter
	case now.Before(b.until):
		return SkipBackoff
	case !p.room():
		return SkipMaxConnections
	case p.warming >= p.cfg.MaxDialing:
		return SkipMaxDialing
	case p.warming+p.unproven(now) >= b.limit:
		return SkipConcurrency
	}
	return SkipNone
}

// unproven is, after an early death, how many idle sessions dialled since then have still to prove themselves: they hold their
// place in the warming concurrency, or an upstream that kills each session at once would be dialled as fast as it answers.
func (p *Pool) unproven(now time.Time) int {
	if !p.backoff.deaths {
		return 0
	}
	n := 0
	for l := range p.fresh.all() {
		if !reached(p.proof(l), now) && l.started.After(p.backoff.counted) {
			n++
		}
	}
	return n
}

// skipped counts the dials that did not start, each once for each reason in turn however often the loop looks.
func (p *Pool) skipped(s Skip) {
	short := 0
	if s != SkipNone {
		short = p.deficit()
	}
	more := short
	if s == p.blocked {
		more -= p.short
	}
	if more > 0 {
		p.counts.Skipped[s] += uint64(more)
	}
	p.blocked, p.short = s, short
}
