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

func TestCaseC5NeverAboveMaxConnections(t *testing.T) {
	f := func(name string, silent bool, linger, pause time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay, u.linger, u.silent = 20*time.Millisecond, linger, silent
			p := u.pool(Config{Size: 8, MaxConnections: 10, MaxIdle: time.Second, CloseTimeout: 100 * time.Millisecond})
			stop := time.Now().Add(20 * time.Second)
			var all sync.WaitGroup
			served, refused := 0, 0
			var mu sync.Mutex
			for range 50 {
				all.Go(func() {
					for time.Now().Before(stop) {
						l, err := p.Take(t.Context())
						mu.Lock()
						switch {
						case err == nil:
							served++
						case errors.Is(err, ErrExhausted):
							refused++
						case errors.Is(err, errKilled): // before its dial was done
						default:
							t.Errorf("%s: take: %v", name, err)
						}
						mu.Unlock()
						time.Sleep(time.Duration(rand.N(100)) * time.Millisecond)
						if err == nil {
							l.Conn().(*fakeConn).end(nil)
							l.Release()
						}
						time.Sleep(time.Duration(rand.N(pause)))
					}
				})
			}
			all.Go(func() {
				for time.Now().Before(stop) {
					time.Sleep(time.Duration(10+rand.N(40)) * time.Millisecond)
					if live := u.live(); len(live) > 0 {
						live[rand.N(len(live))].kill()
					}
				}
			})
			all.Wait()
			if _, peak := u.opened(); peak != 10 {
				t.Errorf("%s: %d connections at a time, want the 10 allowed", name, peak)
			}
			if s := p.Stats(); served < 500 || refused == 0 || (pause == time.Second && s.Evicted[ReasonGone] == 0) {
				t.Errorf("%s: %d served, %d refused, %d died parked", name, served, refused, s.Evicted[ReasonGone])
			}
			after(time.Minute)
			idle(t, p, 8)
			if s := p.Stats(); s.Takes != s.Hits+s.Misses || int(s.Exhausted) != refused || s.Active != 0 || s.Skipped[SkipMaxConnections] == 0 {
				t.Errorf("%s: the counters do not add up: %+v", name, s)
			}
		})
	}
	f("closing reported at once", false, 0, time.Second)
	f("closing reported later", false, 80*time.Millisecond, time.Second)
	f("closing never reported", true, 90*time.Millisecond, time.Second)
	f("overload", false, 0, time.Millisecond)
}

func TestClosingCountsUntilItIsOver(t *testing.T) {
	f := func(name string, linger, over time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.linger = linger
			p := u.pool(Config{Size: 2, MaxConnections: 2})
			idle(t, p, 2)
			p.Drain()
			p.Resume()
			after(over - time.Millisecond)
			if s := p.Stats(); s.Closing != 2 || s.Dialing != 0 || s.Idle != 0 {
				t.Errorf("%s: while closing: %+v", name, s)
			}
			if _, err := p.Take(t.Context()); !errors.Is(err, ErrExhausted) {
				t.Errorf("%s: take: %v", name, err)
			}
			after(time.Millisecond)
			idle(t, p, 2)
		})
	}
	f("gone", time.Second, time.Second)
	f("no word within CloseTimeout", time.Hour, 2*time.Second)
}

func TestMaxDialingBoundsWarmingOnly(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 20, MaxDialing: 3})
		synctest.Wait()
		var waiting []<-chan taken
		for range 5 {
			waiting = append(waiting, taking(t.Context(), p))
		}
		if s := p.Stats(); s.MaxDialing != 3 || s.Warming != 3 || s.Dialing != 8 || s.Waiting != 5 || s.Blocked != SkipMaxDialing || s.Skipped[SkipMaxDialing] != 17 {
			t.Errorf("three warming dials and five of their own: %+v", s)
		}
		after(time.Second)
		for _, c := range waiting {
			if r := <-c; r.err != nil {
				t.Error(r.err)
			}
		}
		for p.Stats().Idle < 20 {
			if n := p.Stats().Warming; n > 3 {
				t.Fatalf("%d warming dials", n)
			}
			after(100 * time.Millisecond)
		}
	})
}

func TestMissJoinsAWarmingDialWithoutRoom(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 2, MaxConnections: 2})
		synctest.Wait()
		a, b := taking(t.Context(), p), taking(t.Context(), p)
		if _, err := p.Take(t.Context()); !errors.Is(err, ErrExhausted) {
			t.Errorf("a third take for two connections: %v", err)
		}
		after(time.Second)
		for _, c := range []<-chan taken{a, b} {
			r := <-c
			if r.err != nil || r.lease.Result() != Miss || r.lease.Wait() != time.Second {
				t.Errorf("joined: %+v", r)
			}
		}
		if n := u.dialled(); n != 2 {
			t.Errorf("%d dials, want the two joined", n)
		}
	})
}

func TestCaseB3KilledSessionsLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2})
		for range 100 {
			after(6 * time.Second)
			live := u.live()
			live[rand.N(len(live))].kill()
		}
		after(time.Second)
		idle(t, p, 2)
		s := p.Stats()
		if s.Evicted[ReasonGone] != 100 || s.Dials != 102 || s.Active+s.Closing+s.Dialing+s.Waiting != 0 {
			t.Errorf("after 100 deaths: %+v", s)
		}
		if open, _ := u.opened(); open != 2 {
			t.Errorf("%d sessions open", open)
		}
	})
}

func TestCaseB3PoolsNeverShareSessions(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		set := NewSet()
		defer set.Close()
		ups := map[string]*upstream{"m1/k1": u, "m2/k1": {t: t}, "m1/k2": {t: t}}
		for key, up := range ups {
			if _, err := set.GetOrCreate(Config{Key: key, Name: key, Size: 2, Dial: up.dial}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for range 5 {
			for key, up := range ups {
				l, err := set.Get(key).Take(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if l.Conn().(*fakeConn).up != up {
					t.Errorf("%s served another target's session", key)
				}
			}
		}
	})
}

func TestIdlePoolDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		idle(t, p, 3)
		p.mu.Lock()
		sweep := p.sweepAt
		p.mu.Unlock()
		if !sweep.IsZero() {
			t.Errorf("a pool without limits looks at its sessions at %s", sweep)
		}
	})
	// With everything refused the next look is the next attempt, however many things happen meanwhile.
	bubble(t, func(t *testing.T, u *upstream) {
		u.outcome = failing(&DialError{Class: ClassAuth})
		p := u.pool(Config{Size: 3})
		after(time.Second)
		before := p.Stats()
		for range 100 {
			if err := p.Resize(3); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if s := p.Stats(); s.Dials != before.Dials || s.Skipped != before.Skipped {
			t.Errorf("skips are counted by looks: %v, before %v", s.Skipped, before.Skipped)
		}
		if got := p.refill(); !got.Equal(before.BackoffTill) {
			t.Errorf("next look at %s, want %s", got, before.BackoffTill)
		}
	})
}

func TestStatsTellAges(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1, MaxAge: time.Hour, AgeJitter: time.Nanosecond})
		after(time.Minute)
		if err := p.Resize(2); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		s := p.Stats()
		if s.Oldest != time.Minute+time.Second || s.Youngest != time.Second {
			t.Errorf("ages %s to %s", s.Youngest, s.Oldest)
		}
		if left := time.Until(s.NextRetirement); left > time.Hour-61*time.Second || left < time.Hour-62*time.Second {
			t.Errorf("next retirement in %s", left)
		}
	})
}

func TestNamesAreDistinct(t *testing.T) {
	f := func(kind string, n int, name func(int) string) {
		t.Helper()
		seen := map[string]bool{}
		for i := range n {
			s := name(i)
			if s == "" || s == "unknown" || seen[s] {
				t.Errorf("%s %d is called %q", kind, i, s)
			}
			seen[s] = true
		}
		if s := name(n); s != "unknown" {
			t.Errorf("%s %d is called %q", kind, n, s)
		}
	}
	f("class", NumClasses, func(i int) string { return Class(i).String() })
	f("reason", NumReasons, func(i int) string { return Reason(i).String() })
	f("skip", NumSkips, func(i int) string { return Skip(i).String() })
	if Hit.String() != "hit" || Miss.String() != "miss" {
		t.Errorf("results are called %q and %q", Hit, Miss)
	}
	e := &DialError{Class: ClassRateLimited, RetryAfter: 7 * time.Second, Err: context.Canceled}
	if got, want := e.Error(), "dial failed (rate_limited): context canceled; retry after 7s"; got != want || !errors.Is(e, context.Canceled) {
		t.Errorf("error %q, want %q", got, want)
	}
}
