package pool

import "time"

type state uint8

const (
	stateDialing state = iota
	stateIdle
	stateActive
	stateClosing
	stateEnded
)

// Result says where a taken session came from.
type Result uint8

const (
	Hit  Result = iota // it was idle
	Miss               // the caller waited for a dial
)

func (r Result) String() string {
	if r == Hit {
		return "hit"
	}
	return "miss"
}

// Lease is a session that Take has handed out. Its owner ends it with one Dead or Release; its methods are safe for
// concurrent use. It is also the pool's record of the session before that.
type Lease struct {
	pool *Pool
	conn Conn
	link link[Lease]

	started time.Time // of its dial
	born    time.Time // ready
	taken   time.Time
	closeBy time.Time // while closing
	wait    time.Duration
	limits  limits

	generation uint64
	state      state
	result     Result
	dropped    bool  // not to be parked
	dead       bool  // Gone was called
	shut       bool  // Closed was called
	cause      error // what Gone said
}

// Conn is the session, the caller's until Dead or Release.
func (l *Lease) Conn() Conn { return l.conn }

// Result says whether the session was idle.
func (l *Lease) Result() Result { return l.result }

// Age is how long the session had been ready when it was taken.
func (l *Lease) Age() time.Duration { return max(0, l.taken.Sub(l.born)) }

// Started is when its dial began.
func (l *Lease) Started() time.Time { return l.started }

// Wait is how long Take waited for a dial; 0 for a hit.
func (l *Lease) Wait() time.Duration { return l.wait }

// Dead reports that the session proved dead at hand-off, before it was of any use: it counts as closing, and the caller takes
// again. A death within Probation counts as a failed dial. The pool does not close the Conn. Nothing after Dead or Release
// counts.
func (l *Lease) Dead(err error) {
	p := l.pool
	p.mu.Lock()
	defer p.unlock()
	if l.state != stateActive {
		return
	}
	p.active--
	p.linger(l)
	p.counts.Dead++
	p.mourn(l, err)
}

// Release reports that the session has ended and its sockets are closed: its slot is free. Nothing after Dead or Release counts.
func (l *Lease) Release() {
	p := l.pool
	p.mu.Lock()
	defer p.unlock()
	if l.state != stateActive {
		return
	}
	p.end(l)
	if now := time.Now(); p.outlived(l, now) {
		p.prove(now)
	}
}

// Lifeline is how a session tells its pool of its end, from any goroutine and perhaps before its DialFunc has returned.
// The zero value is that of a session without a pool and tells nobody.
type Lifeline struct{ l *Lease }

// Gone says that the session has died, or is about to, and must not be handed out: the pool does not close it any more.
// Of a session that was taken its owner finds out for itself.
func (n Lifeline) Gone(err error) {
	if n.l == nil {
		return
	}
	l, p := n.l, n.l.pool
	p.mu.Lock()
	defer p.unlock()
	switch l.state {
	case stateDialing, stateActive:
		l.dead, l.cause = true, err // finish looks at these
	case stateIdle:
		p.evict(l, err)
	}
}

// Closed says that the sockets of a session that is gone, or was closed by its pool, are closed: it does not count as
// closing any more. Without a word CloseTimeout ends that.
func (n Lifeline) Closed() {
	if n.l == nil {
		return
	}
	l, p := n.l, n.l.pool
	p.mu.Lock()
	defer p.unlock()
	l.shut = true
	switch l.state {
	case stateIdle:
		p.evict(l, nil)
	case stateClosing:
		l.link.remove()
		p.linger(l)
	}
}

// evict takes an idle session that has died out of the pool.
func (p *Pool) evict(l *Lease, err error) {
	l.link.remove()
	p.counts.Evicted[ReasonGone]++
	p.linger(l)
	p.mourn(l, err)
}

// linger makes l count as closing until its sockets are closed.
func (p *Pool) linger(l *Lease) {
	p.signal()
	if l.shut {
		l.state = stateEnded
		return
	}
	l.state = stateClosing
	l.closeBy = time.Now().Add(p.cfg.CloseTimeout)
	p.closing.push(&l.link)
}

// end frees the slot of an active session.
func (p *Pool) end(l *Lease) {
	l.state = stateEnded
	p.active--
	p.signal()
}

// mourn accounts for a session that died without being asked to.
func (p *Pool) mourn(l *Lease, err error) {
	p.signal()
	now := time.Now()
	if now.Sub(l.born) >= p.cfg.Probation {
		return
	}
	p.fail(now, l.started, classify(err, ClassEarlyDeath), true)
}

// proof is when l has proved that it is no early death: after Probation, or when it comes due if that is sooner.
func (p *Pool) proof(l *Lease) time.Time {
	return earlier(l.born.Add(p.cfg.Probation), l.limits.due)
}

// outlived reports whether l has proved itself since the last early death was counted: an older survivor says nothing.
func (p *Pool) outlived(l *Lease, now time.Time) bool {
	if !p.backoff.deaths {
		return false
	}
	proof := p.proof(l)
	return proof.After(p.backoff.counted) && reached(proof, now)
}
