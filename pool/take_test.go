package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTakeServesTheOldestFirst(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1})
		for n := 2; n <= 4; n++ {
			after(time.Second)
			if err := p.Resize(n); err != nil {
				t.Fatal(err)
			}
		}
		after(time.Second)
		for want := range 4 {
			l, c := take(t, p, Hit)
			if c.id != want {
				t.Errorf("took session %d, want %d", c.id, want)
			}
			if age := time.Duration(4-want) * time.Second; l.Age() != age || l.Wait() != 0 {
				t.Errorf("session %d: age %s and wait %s, want %s and 0", want, l.Age(), l.Wait(), age)
			}
		}
		idle(t, p, 4)
	})
}

func TestTakeServesThoseThatWaitForReplacementFirst(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3, MaxDialing: 1})
		idle(t, p, 3)
		u.set(func(u *upstream) { u.delay = time.Second })
		p.Recycle()
		after(time.Second) // session 3 has replaced session 0
		for _, want := range []int{1, 2, 3} {
			if _, c := take(t, p, Hit); c.id != want {
				t.Errorf("took session %d, want %d", c.id, want)
			}
		}
	})
}

func TestTakeNeverServesPastALimit(t *testing.T) {
	f := func(name string, cfg Config, expires time.Duration, usable time.Duration, want Reason) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.expires = expires
			cfg.Size = 2
			p := u.pool(cfg)
			idle(t, p, 2)
			p.Pause() // nothing is replaced
			after(usable - time.Millisecond)
			l, _ := take(t, p, Hit)
			l.Release()
			// The limit itself: before the sweep has had a chance to close anything, Take judges alone.
			time.Sleep(time.Millisecond)
			l, c := take(t, p, Miss)
			if !c.born.Equal(time.Now()) {
				t.Errorf("%s: served a session born %s ago past its limit", name, time.Since(c.born))
			}
			l.Release()
			synctest.Wait()
			if s := p.Stats(); s.Evicted[want] != 1 || s.Idle != 0 {
				t.Errorf("%s: idle %d, evicted %v, want one %s", name, s.Idle, s.Evicted, want)
			}
		})
	}
	f("max_idle", Config{MaxIdle: 10 * time.Second}, 0, 10*time.Second, ReasonIdle)
	f("max_age", Config{MaxAge: 10 * time.Second, MaxIdle: time.Minute}, 0, 10*time.Second, ReasonAge)
	f("expiry", Config{MinRemaining: 15 * time.Second, MaxAge: time.Hour}, 40*time.Second, 25*time.Second, ReasonExpired)
}

func TestCaseA1DeadSessionsAreNotServed(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		idle(t, p, 3)
		u.session(0).kill()
		u.session(1).kill()
		after(100 * time.Millisecond)
		if _, c := take(t, p, Hit); c.id != 2 {
			t.Errorf("took session %d, want 2, the one alive", c.id)
		}
		after(2 * time.Second)
		idle(t, p, 3)

		for _, c := range u.live() {
			if c.id != 2 {
				c.kill()
			}
		}
		before := u.dialled()
		if l, c := take(t, p, Miss); !c.ended.IsZero() || l.Wait() != 0 {
			t.Errorf("all dead: took %d after %s", c.id, l.Wait())
		}
		if n := u.dialled() - before; n != 1 {
			t.Errorf("all dead: %d dials for one take, want its own", n)
		}
		after(2 * time.Second)
		idle(t, p, 3)
	})
}

func TestCaseA1DeadAtHandOff(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2, MaxConnections: 2})
		after(time.Minute)
		l, dead := take(t, p, Hit)
		l.Dead(errors.New("FIN at hand-off"))
		l.Dead(nil)
		l.Release() // too late to count
		if l, c := take(t, p, Hit); c.id != 1 {
			t.Errorf("took session %d, want the next", c.id)
		} else {
			l.Release()
		}
		if s := p.Stats(); s.Closing != 1 || s.Idle+s.Dialing > 1 {
			t.Errorf("%d closing, %d idle, %d dialling: a dead session keeps its place until its sockets are closed", s.Closing, s.Idle, s.Dialing)
		}
		dead.end(nil)
		idle(t, p, 2)
		s := p.Stats()
		if s.Dead != 1 || s.Active != 0 || s.DialsFailed[ClassEarlyDeath] != 0 {
			t.Errorf("dead %d, active %d, early deaths %d; want 1, 0, 0", s.Dead, s.Active, s.DialsFailed[ClassEarlyDeath])
		}

		l, _ = take(t, p, Hit)
		l.Dead(nil)
		if s = p.Stats(); s.DialsFailed[ClassEarlyDeath] != 1 || s.BackoffTill.IsZero() {
			t.Errorf("a session dead at hand-off within probation: %d early deaths, back-off until %v", s.DialsFailed[ClassEarlyDeath], s.BackoffTill)
		}
	})
}

func TestMissTakesTheFirstDialToFinish(t *testing.T) {
	f := func(name string, warm, own time.Duration, want int, wait time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay = warm
			p := u.pool(Config{Size: 1})
			after(100 * time.Millisecond)
			u.set(func(u *upstream) { u.delay = own })
			l, c := take(t, p, Miss)
			if l.Wait() != wait || c.id != 0 {
				t.Errorf("%s: session %d after %s, want 0 after %s", name, c.id, l.Wait(), wait)
			}
			after(5 * time.Second)
			// The loser's session warms the pool: two dials for one client and one idle session.
			idle(t, p, 1)
			if n := u.dialled(); n != want {
				t.Errorf("%s: %d dials, want %d", name, n, want)
			}
		})
	}
	f("warm first", 300*time.Millisecond, 400*time.Millisecond, 2, 200*time.Millisecond)
	f("own first", time.Second, 400*time.Millisecond, 2, 400*time.Millisecond)
}

func TestUnwantedDialOfAMissIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("client went away")
		got := taking(ctx, p)
		cancel(gone) // the warming dial already covers the deficit
		if r := <-got; !errors.Is(r.err, gone) {
			t.Errorf("take ended with %v, want the context's cause", r.err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Dialing != 1 || s.Warming != 1 || s.Canceled != 1 || s.DialsCanceled != 1 {
			t.Errorf("the warming dial alone should be left: %+v", s)
		}
		after(time.Second)
		idle(t, p, 1)
		if open, _ := u.opened(); open != 1 {
			t.Errorf("%d sessions open, want 1", open)
		}
	})
}

func TestSessionWithoutRoomIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay, u.stubborn = time.Second, true
		p := u.pool(Config{Size: 1})
		ctx, cancel := context.WithCancel(t.Context())
		got := taking(ctx, p)
		cancel()
		<-got
		after(time.Second)
		idle(t, p, 1)
		if s := p.Stats(); s.Evicted[ReasonSurplus] != 1 || s.Closing != 0 {
			t.Errorf("evicted %v, want one surplus", s.Evicted)
		}
	})
}

func TestSessionDeliveredTooLateIsPassedOn(t *testing.T) {
	f := func(name string, before func(p *Pool, c *fakeConn), parked int) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			p := u.pool(Config{})
			w := &waiter{done: make(chan struct{})}
			w.link.value = w
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			p.mu.Lock()
			w.dial = p.start(time.Now())
			w.dial.owner = w
			p.waiters.push(&w.link)
			p.size, p.cfg.MaxConnections = 1, 1 // room for it, and none for another
			p.unlock()
			<-w.done // the session is there, and Take sees its context first
			before(p, u.session(0))
			if err := p.abandon(ctx, w); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: take: %v", name, err)
			}
			p.mu.Lock()
			got, first := p.idle(), p.fresh.front()
			p.mu.Unlock()
			if got != parked || (parked == 1) != (first == w.lease) {
				t.Errorf("%s: %d parked, want %d", name, got, parked)
			}
			synctest.Wait()
			if s := p.Stats(); s.Active != 0 {
				t.Errorf("%s: %d active", name, s.Active)
			}
		})
	}
	f("still good", func(*Pool, *fakeConn) {}, 1)
	f("paused meanwhile", func(p *Pool, _ *fakeConn) { p.Pause() }, 0)
	f("recycled meanwhile", func(p *Pool, _ *fakeConn) { p.Recycle() }, 0)
	f("closed meanwhile", func(p *Pool, _ *fakeConn) { p.Close() }, 0)
	f("dead meanwhile", func(_ *Pool, c *fakeConn) { c.kill() }, 0)
}

func TestAbandonedDialWarmsAPoolThatIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 1, MaxConnections: 1})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		got := taking(ctx, p) // no room: it joins the warming dial
		cancel()
		<-got
		after(time.Second)
		idle(t, p, 1)
		if n := u.dialled(); n != 1 {
			t.Errorf("%d dials, want the one that was abandoned and kept", n)
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = 5 * time.Second
		p := u.pool(Config{})
		var waiting []<-chan taken
		for range 5 {
			waiting = append(waiting, taking(t.Context(), p))
			// Each dial is faster than the one before, so that the last to arrive has the first dial to finish.
			u.set(func(u *upstream) { u.delay -= time.Second })
			after(time.Millisecond)
		}
		for i, c := range waiting {
			after(time.Second)
			if len(c) != 1 {
				t.Fatalf("waiter %d is not served next", i)
			}
			if r := <-c; r.err != nil || r.lease.Conn().(*fakeConn).id != i {
				t.Errorf("waiter %d: %+v", i, r)
			}
		}
		if n := u.dialled(); n != 5 {
			t.Errorf("%d dials for 5 takes", n)
		}
	})
}

func TestMissFailsWithItsOwnDial(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Hour
		p := u.pool(Config{Size: 1})
		synctest.Wait()
		u.set(func(u *upstream) {
			u.delay = 0
			u.outcome = func(int) error { return &DialError{Class: ClassAuth, Err: errors.New("401")} }
		})
		_, err := p.Take(t.Context())
		if e, ok := errors.AsType[*DialError](err); !ok || e.Class != ClassAuth {
			t.Errorf("take: %v, want its own dial's error", err)
		}
	})
}

func TestCaseB1EachSessionHasOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = 7 * time.Millisecond
		p := u.pool(Config{Size: 1})
		var clients sync.WaitGroup
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(50))*time.Millisecond)
			clients.Go(func() {
				defer cancel()
				l, err := p.Take(ctx)
				if err != nil {
					return
				}
				c := l.Conn().(*fakeConn)
				u.set(func(*upstream) { c.taken++ })
				<-ctx.Done()
				c.end(nil)
				l.Release()
			})
			time.Sleep(time.Duration(rand.N(10)) * time.Millisecond)
		}
		clients.Wait()
		after(time.Minute)
		idle(t, p, 1)
		u.set(func(u *upstream) {
			for _, c := range u.conns {
				if c.taken > 1 {
					t.Errorf("session %d had %d owners", c.id, c.taken)
				}
			}
		})
		if open, _ := u.opened(); open != 1 {
			t.Errorf("%d sessions open, want 1", open)
		}
	})
}

func TestTakeAfterItsContextEnded(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1})
		idle(t, p, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Take(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("take: %v", err)
		}
		idle(t, p, 1)
	})
}
