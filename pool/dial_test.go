package pool

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDialTimeoutIsOneDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Hour
		p := u.pool(Config{DialTimeout: 3 * time.Second})
		start := time.Now()
		_, err := p.Take(t.Context())
		e, ok := errors.AsType[*DialError](err)
		if !ok || e.Class != ClassTimeout || time.Since(start) != 3*time.Second {
			t.Errorf("take: %v after %s, want a timeout after 3s", err, time.Since(start))
		}
	})
}

func TestStillbornDialsFail(t *testing.T) {
	f := func(name string, born func(*fakeConn), want Class) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.born = born
			p := u.pool(Config{MinRemaining: time.Minute})
			_, err := p.Take(t.Context())
			if e, ok := errors.AsType[*DialError](err); !ok || e.Class != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		})
	}
	deliver := func(err error) func(*fakeConn) {
		return func(c *fakeConn) { c.ended = time.Now(); c.up.open--; c.life.Gone(err) }
	}
	f("gone before the dial returned", deliver(errors.New("FIN")), ClassEarlyDeath)
	f("gone without a cause", deliver(nil), ClassEarlyDeath)
	f("gone with a class", deliver(&DialError{Class: ClassAuth}), ClassAuth)

	bubble(t, func(t *testing.T, _ *upstream) {
		p, err := New(Config{Dial: func(context.Context, Lifeline) (Conn, error) { return nil, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Take(t.Context()); !errors.Is(err, errNoSession) {
			t.Errorf("a dial without a result: %v", err)
		}
	})

	// Too short a life to be parked: a miss may have it, warming must not loop.
	bubble(t, func(t *testing.T, u *upstream) {
		u.expires = time.Second
		p := u.pool(Config{Size: 4, MinRemaining: time.Minute})
		after(30 * time.Second)
		if n := u.dialled(); n > 20 {
			t.Errorf("%d dials in 30 s for sessions that cannot be parked", n)
		}
		idle(t, p, 0)
		if s := p.Stats(); s.LastError == nil || s.Evicted[ReasonExpired] == 0 {
			t.Errorf("unexplained: %+v", s)
		}
		take(t, p, Miss)
	})
}
