package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Pool keeps Size sessions of one target warm. All its methods are safe for concurrent use.
type Pool struct {
	key    string
	name   string
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	wakeup chan struct{} // capacity 1: signals the refill loop
	tasks  sync.WaitGroup

	mu      sync.Mutex
	cfg     Config
	size    int
	paused  bool
	closed  bool
	current uint64 // generation: only sessions dialled in it are parked

	// The idle sessions: fresh in order of birth, due, which wait for their replacements, in the order they came due.
	fresh, due list[Lease]
	closing    list[Lease] // in order of closeBy
	active     int
	dials      list[dial] // in order of start
	warming    int        // dials without an owner that were not cancelled
	waiters    list[waiter]

	backoff backoff
	strata  strata
	slow    time.Duration // decaying maximum of dial times
	sweepAt time.Time     // when a session next becomes due, ends or proves itself; zero: never

	blocked Skip // what stopped the last refill, and how many dials
	short   int
	counts  Counters

	// What unlock does once the mutex is free.
	pending struct {
		wake   bool
		closes []closure
		events []Event
	}
}

type closure struct {
	conn   Conn
	reason Reason
}

var errNoDial = errors.New("Dial is nil: set the function that makes a session")

// New starts a pool that warms Size sessions. The caller closes it.
func New(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	if cfg.Dial == nil {
		return nil, fmt.Errorf("pool %q: %w", cfg.Name, errNoDial)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pool %q: %w", cfg.Name, err)
	}
	p := &Pool{key: cfg.Key, name: cfg.Name, cfg: cfg, size: cfg.Size, wakeup: make(chan struct{}, 1), strata: newStrata()}
	p.backoff = newBackoff(&p.cfg)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.tasks.Go(p.run)
	return p, nil
}

// Key is the identity of the pool's target.
func (p *Pool) Key() string { return p.key }

// Name is the target's name for people.
func (p *Pool) Name() string { return p.name }

// Close ends the idle sessions with ReasonClosed, cancels the dials, fails the waiting Takes with ErrClosed and waits for the
// pool's goroutines. Taken sessions go on; their Release is still due. Close is idempotent.
func (p *Pool) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.cancel(ErrClosed)
		for w := range p.waiters.all() {
			p.settle(w, nil, p.error("take", ErrClosed))
			p.disown(w.dial)
		}
		p.retireIdle(0, ReasonClosed)
	}
	p.unlock()
	p.tasks.Wait()
}

// Resize sets the number of sessions to keep idle. When it returns, no more than n are idle, and no more will be; the
// missing ones are being dialled. It fails with ErrSize, and ErrClosed. Of calls that overlap, the last to return nil wins.
//
// To shrink, warming dials are cancelled first, the newest first. Then idle sessions are closed, those that wait for a
// replacement first and after them the oldest: they have the least life left, so that closing them saves the most dials
// later. Taken sessions are never touched.
func (p *Pool) Resize(n int) error {
	p.mu.Lock()
	defer p.unlock()
	if err := p.cfg.checkSize(n); err != nil {
		return p.error("resize", err)
	}
	if p.closed {
		return p.error("resize", ErrClosed)
	}
	p.resize(n)
	return nil
}

func (p *Pool) resize(n int) {
	p.size = n
	for d := range p.dials.backward() {
		if p.deficit() >= 0 {
			break
		}
		p.drop(d)
	}
	p.retireIdle(n, ReasonResize)
	p.signal()
}

// Pause stops warming. Idle sessions are kept, and served until their limits; dials in flight are finished and kept.
func (p *Pool) Pause() {
	p.mu.Lock()
	defer p.unlock()
	p.paused = true
}

// Resume undoes Pause and Drain.
func (p *Pool) Resume() {
	p.mu.Lock()
	defer p.unlock()
	p.paused = false
	p.signal()
}

// Drain closes the idle sessions with ReasonDrain, cancels the warming dials and pauses: until Resume, Take dials.
func (p *Pool) Drain() {
	p.mu.Lock()
	defer p.unlock()
	p.paused = true
	p.dropWarming()
	p.retireIdle(0, ReasonDrain)
}

// Recycle replaces every idle session and every warming dial by a new one, MaxDialing at a time, each session only once
// its replacement is ready, while MaxConnections leaves room for one; without room, one is closed first. Until then the
// old ones are served.
func (p *Pool) Recycle() {
	p.mu.Lock()
	defer p.unlock()
	p.current++
	p.dropWarming()
	for l := range p.fresh.all() {
		p.makeDue(l)
	}
	p.signal()
}

// retireIdle closes idle sessions until keep are left.
func (p *Pool) retireIdle(keep int, r Reason) {
	for p.idle() > keep {
		p.retire(p.next(), r)
	}
}

// retire closes a session that is idle, or was never handed out.
func (p *Pool) retire(l *Lease, r Reason) {
	l.link.remove()
	p.counts.Evicted[r]++
	p.pending.closes = append(p.pending.closes, closure{l.conn, r})
	p.linger(l)
}

func (p *Pool) idle() int { return p.fresh.len + p.due.len }

// room reports whether one more dial stays within MaxConnections.
func (p *Pool) room() bool {
	return p.cfg.MaxConnections == 0 || p.idle()+p.dials.len+p.active+p.closing.len < p.cfg.MaxConnections
}

// deficit is how many warming dials are wanted beyond those in flight; negative: how many of them are not.
func (p *Pool) deficit() int { return p.size - p.fresh.len - p.warming }

// signal wakes the refill loop once the mutex is free.
func (p *Pool) signal() { p.pending.wake = true }

// unlock releases the mutex and then does what had to wait for that.
func (p *Pool) unlock() {
	wake, closes, events, tell := p.pending.wake, p.pending.closes, p.pending.events, p.cfg.Events
	p.pending.wake = false
	if len(closes)+len(events) > 0 {
		p.pending.closes, p.pending.events = nil, nil
	}
	p.mu.Unlock()
	if wake {
		select {
		case p.wakeup <- struct{}{}:
		default:
		}
	}
	for _, c := range closes {
		c.conn.Close(c.reason)
	}
	for _, e := range events {
		tell(e)
	}
}

// error adds what was tried and where.
func (p *Pool) error(op string, err error) error {
	return fmt.Errorf("pool %q: %s: %w", p.name, op, err)
}
