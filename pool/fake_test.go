package pool

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// upstream is a scripted peer: it makes the Conns of a pool and watches what becomes of them.
type upstream struct {
	t *testing.T

	mu       sync.Mutex
	delay    time.Duration     // of a handshake
	stubborn bool              // handshakes go on after their context has ended
	outcome  func(n int) error // of the nth dial, from 0; nil: success
	expires  time.Duration     // life told to the pool; 0: none
	linger   time.Duration     // from Close to the end; the lifeline is told then
	silent   bool              // the lifeline is told nothing after Close
	born     func(c *fakeConn) // called before the dial returns
	dials    []time.Time       // starts
	conns    []*fakeConn       // in order of birth
	open     int               // handshaking and not ended
	peak     int               // of open
}

type fakeConn struct {
	up      *upstream
	id      int
	expires time.Time
	life    Lifeline
	born    time.Time

	// Under up.mu.
	ended  time.Time
	closed bool
	reason Reason
	taken  int
}

func (u *upstream) dial(ctx context.Context, life Lifeline) (Conn, error) {
	u.mu.Lock()
	n := len(u.dials)
	u.dials = append(u.dials, time.Now())
	u.open++
	u.peak = max(u.peak, u.open)
	delay, outcome := u.delay, u.outcome
	if u.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	u.mu.Unlock()
	err := wait(ctx, delay)
	if err == nil && outcome != nil {
		err = outcome(n)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.open--
		return nil, err
	}
	c := &fakeConn{up: u, id: len(u.conns), life: life, born: time.Now()}
	if u.expires != 0 {
		c.expires = time.Now().Add(u.expires)
	}
	u.conns = append(u.conns, c)
	if u.born != nil {
		u.born(c)
	}
	return c, nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeConn) ExpiresAt() time.Time { return c.expires }

func (c *fakeConn) Close(r Reason) {
	u := c.up
	u.mu.Lock()
	if c.closed {
		u.t.Errorf("session %d closed twice, now for %s", c.id, r)
	}
	c.closed, c.reason = true, r
	linger := u.linger
	u.mu.Unlock()
	if linger == 0 {
		c.end(nil) // re-entrant: from inside Close
		return
	}
	time.AfterFunc(linger, func() { c.end(nil) })
}

// end closes the sockets, if they still are open, and says so.
func (c *fakeConn) end(err error) {
	u := c.up
	u.mu.Lock()
	if !c.ended.IsZero() {
		u.mu.Unlock()
		return
	}
	c.ended = time.Now()
	u.open--
	closed := c.closed
	quiet := closed && u.silent
	u.mu.Unlock()
	if quiet {
		return
	}
	if !closed {
		c.life.Gone(err)
	}
	c.life.Closed()
}

// kill is the peer ending the session.
func (c *fakeConn) kill() { c.end(errKilled) }

var errKilled = errors.New("peer sent FIN")

func (u *upstream) set(f func(*upstream)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

func (u *upstream) live() []*fakeConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	var live []*fakeConn
	for _, c := range u.conns {
		if c.ended.IsZero() {
			live = append(live, c)
		}
	}
	return live
}

func (u *upstream) session(i int) *fakeConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i >= len(u.conns) {
		u.t.Fatalf("session %d does not exist: %d made", i, len(u.conns))
	}
	return u.conns[i]
}

func (u *upstream) dialled() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.dials)
}

// since counts the dials that began at or after at.
func (u *upstream) since(at time.Time) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, d := range u.dials {
		if !d.Before(at) {
			n++
		}
	}
	return n
}

func (u *upstream) opened() (open, peak int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open, u.peak
}

// pool starts a pool on u that ends with the test.
func (u *upstream) pool(cfg Config) *Pool {
	u.t.Helper()
	cfg.Name, cfg.Dial = "mock", u.dial
	p, err := New(cfg)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(p.Close)
	return p
}

// bubble runs f with a fake clock, an upstream and a context.
func bubble(t *testing.T, f func(t *testing.T, u *upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &upstream{t: t}) })
}

// after lets d pass and everything settle.
func after(d time.Duration) {
	time.Sleep(d) // the bubble's clock: no real time passes
	synctest.Wait()
}

// take must succeed with the given result.
func take(t *testing.T, p *Pool, want Result) (*Lease, *fakeConn) {
	t.Helper()
	l, err := p.Take(t.Context())
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	if l.Result() != want {
		t.Fatalf("take: %s, want %s", l.Result(), want)
	}
	return l, l.Conn().(*fakeConn)
}

type taken struct {
	lease *Lease
	err   error
}

// taking takes in the background and waits until that take waits.
func taking(ctx context.Context, p *Pool) <-chan taken {
	c := make(chan taken, 1)
	go func() {
		l, err := p.Take(ctx)
		c <- taken{l, err}
	}()
	synctest.Wait()
	return c
}

func idle(t *testing.T, p *Pool, want int) {
	t.Helper()
	synctest.Wait()
	if s := p.Stats(); s.Idle != want {
		t.Fatalf("%d idle, want %d: %+v", s.Idle, want, s)
	}
}

func ids(conns []*fakeConn) []int {
	var list []int
	for _, c := range conns {
		list = append(list, c.id)
	}
	return list
}
