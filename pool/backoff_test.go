package pool

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func failing(e *DialError) func(int) error { return func(int) error { return e } }

func TestCaseC1FailuresBackOff(t *testing.T) {
	f := func(name string, e *DialError, delay, limit time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.outcome, u.delay = failing(e), delay
			p := u.pool(Config{Size: 8, AuthBackoff: 8 * time.Second, BackoffMax: 8 * time.Second})
			after(30 * time.Second)
			if n := u.since(time.Now().Add(-10 * time.Second)); n > 10 {
				t.Errorf("%s: %d dials in the last 10 s, want at most 10", name, n)
			}
			if n := u.dialled(); n < 9 || n > 60 {
				t.Errorf("%s: %d dials in 30 s", name, n)
			}
			s := p.Stats()
			if s.LastError != e || s.LastErrorAt.IsZero() || s.DialsFailed[e.Class] == 0 || s.Skipped[SkipBackoff]+s.Skipped[SkipRetryAfter] == 0 || s.Blocked == SkipNone {
				t.Errorf("%s: the failures are not told: %+v", name, s)
			}
			u.set(func(u *upstream) { u.outcome = nil })
			after(limit + 2*time.Second)
			idle(t, p, 8)
			if s = p.Stats(); s.Failures != 0 || s.Concurrency != 16 || !s.BackoffTill.IsZero() {
				t.Errorf("%s: not recovered: %+v", name, s)
			}
		})
	}
	const cap = 8 * time.Second
	f("401", &DialError{Class: ClassAuth}, 5*time.Millisecond, cap)
	f("preset refused", &DialError{Class: ClassConfig}, 5*time.Millisecond, cap)
	f("404", &DialError{Class: ClassNotFound}, 5*time.Millisecond, cap)
	f("quota", &DialError{Class: ClassQuota}, 5*time.Millisecond, cap)
	f("429 with rubbish for Retry-After", &DialError{Class: ClassRateLimited}, 5*time.Millisecond, cap)
	f("FIN after the request", &DialError{Class: ClassProtocol}, 5*time.Millisecond, cap)
	f("port closed", &DialError{Class: ClassRefused}, 0, cap)
	f("slow handshakes", &DialError{Class: ClassOther}, 300*time.Millisecond, cap)
}

func TestCaseC1EarlyDeathsBackOff(t *testing.T) {
	f := func(life time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay = 20 * time.Millisecond
			u.born = func(c *fakeConn) { time.AfterFunc(life, c.kill) }
			p := u.pool(Config{Size: 8, BackoffMax: 8 * time.Second})
			after(60 * time.Second)
			if n := u.since(time.Now().Add(-10 * time.Second)); n > 10 {
				t.Errorf("sessions that die after %s: %d dials in the last 10 s, want at most 10", life, n)
			}
			if s := p.Stats(); s.DialsFailed[ClassEarlyDeath] == 0 {
				t.Errorf("no early death counted: %+v", s)
			}
			u.set(func(u *upstream) { u.born = nil })
			// The last one still dies, and then one has to outlive Probation before the others follow.
			after(life + 8*time.Second + 5*time.Second + 2*time.Second)
			idle(t, p, 8)
			if s := p.Stats(); s.Failures != 0 || s.Concurrency != 16 {
				t.Errorf("not recovered: %+v", s)
			}
		})
	}
	f(time.Millisecond)
	f(100 * time.Millisecond)
	f(3 * time.Second)

	// Past Probation it is the upstream's idle limit, not a failure.
	bubble(t, func(t *testing.T, u *upstream) {
		u.born = func(c *fakeConn) { time.AfterFunc(5*time.Second, c.kill) }
		p := u.pool(Config{Size: 8})
		after(12 * time.Second)
		idle(t, p, 8)
		if s := p.Stats(); s.DialsFailed[ClassEarlyDeath] != 0 || s.Evicted[ReasonGone] != 16 {
			t.Errorf("%d early deaths and %d gone, want 0 and 16", s.DialsFailed[ClassEarlyDeath], s.Evicted[ReasonGone])
		}
	})
}

func TestSessionsTooShortLivedForProbationProveThemselves(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 20, MaxIdle: 2 * time.Second})
		idle(t, p, 20)
		for range 3 {
			u.live()[0].kill()
			after(time.Second)
		}
		for range 100 {
			after(100 * time.Millisecond)
			if s := p.Stats(); s.Oldest > 2*time.Second+sweepGap {
				t.Fatalf("kept for %s", s.Oldest)
			}
		}
		idle(t, p, 20)
		if s := p.Stats(); s.Failures != 0 || s.Concurrency != 16 || s.DialsFailed[ClassEarlyDeath] != 3 {
			t.Errorf("sessions that live to their max_idle prove nothing: %+v", s)
		}
	})
}

func TestUnknownClassCountsAsOther(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.outcome = failing(&DialError{Class: 200})
		p := u.pool(Config{})
		if _, err := p.Take(t.Context()); err == nil || p.Stats().DialsFailed[ClassOther] != 1 {
			t.Errorf("take: %v; %v", err, p.Stats().DialsFailed)
		}
	})
}

func TestSurvivorOfTheSameFillEndsEarlyDeathBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2})
		idle(t, p, 2)
		u.set(func(u *upstream) { u.delay = time.Hour })
		after(time.Second)
		u.session(0).kill()
		after(4*time.Second - time.Millisecond)
		if s := p.Stats(); s.Failures != 1 {
			t.Errorf("recovered before anything outlived Probation: %+v", s)
		}
		after(time.Millisecond)
		if s := p.Stats(); s.Failures != 0 {
			t.Errorf("the other session is 5 s old and proves nothing: %+v", s)
		}
	})
}

func TestOldSessionsProveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		after(time.Minute)
		l, _ := take(t, p, Hit)
		synctest.Wait()
		u.live()[3].kill()
		after(4 * time.Second)
		u.live()[3].kill()
		l.Release()
		after(time.Second)
		if s := p.Stats(); s.Failures != 2 {
			t.Errorf("%d rounds counted, want 2, for none of the new sessions lives: %+v", s.Failures, s)
		}
	})
}

func TestSurvivorInUseEndsEarlyDeathBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1})
		idle(t, p, 1)
		u.session(0).kill()
		after(time.Second)
		l, _ := take(t, p, Hit)
		after(4 * time.Second)
		p.Drain() // nothing else may prove the upstream sound
		if s := p.Stats(); s.Failures == 0 {
			t.Fatal("recovered before any session outlived Probation")
		}
		after(time.Second)
		l.Release()
		if s := p.Stats(); s.Failures != 0 {
			t.Errorf("a session used for 5 s proves nothing: %+v", s)
		}
	})
}

func TestCaseC3RetryAfterHoldsTheWholePool(t *testing.T) {
	f := func(name string, e *DialError, hold time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.outcome = func(n int) error {
				if n == 0 {
					return e
				}
				return nil
			}
			p := u.pool(Config{Size: 3, MaxDialing: 1})
			after(0)
			start := time.Now()
			first := u.dialled()
			after(hold - 2*time.Second)
			_, err := p.Take(t.Context())
			if got, ok := errors.AsType[*DialError](err); !ok || got.Class != e.Class || got.RetryAfter != 2*time.Second || !errors.Is(err, e.Err) {
				t.Errorf("%s: a miss got %v, want the error with 2s left", name, err)
			}
			after(2*time.Second - time.Millisecond)
			if n := u.dialled(); n != first {
				t.Errorf("%s: %d dials before the hold was over", name, n-first)
			}
			if s := p.Stats(); s.Blocked != SkipRetryAfter || s.Skipped[SkipRetryAfter] != 3 || s.Refused != 1 || !s.RefuseTill.Equal(start.Add(hold)) {
				t.Errorf("%s: not told: %+v", name, s)
			}
			after(time.Millisecond)
			idle(t, p, 3)
		})
	}
	f("rate limit", &DialError{Class: ClassRateLimited, RetryAfter: 7 * time.Second, Err: errors.New("429")}, 7*time.Second)
	f("unavailable", &DialError{Class: ClassOther, RetryAfter: 7 * time.Second, Err: errors.New("503")}, 7*time.Second)
	f("quota", &DialError{Class: ClassQuota, Err: errors.New("insufficient_quota")}, time.Minute)
	f("quota with Retry-After", &DialError{Class: ClassQuota, RetryAfter: 7 * time.Second, Err: errors.New("429")}, 7*time.Second)
	f("a peer that asks for too much", &DialError{Class: ClassRateLimited, RetryAfter: 1000 * time.Hour, Err: errors.New("429")}, time.Hour)
}

func TestHitsAreServedDuringRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2})
		idle(t, p, 2)
		u.set(func(u *upstream) { u.outcome = failing(&DialError{Class: ClassRateLimited, RetryAfter: time.Minute}) })
		take(t, p, Hit)
		after(time.Second)
		take(t, p, Hit)
	})
}

func TestSuccessBegunBeforeRetryAfterDoesNotLiftIt(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 1})
		synctest.Wait()
		u.set(func(u *upstream) {
			u.delay, u.outcome = 0, failing(&DialError{Class: ClassRateLimited, RetryAfter: 7 * time.Second})
		})
		if _, err := p.Take(t.Context()); err == nil {
			t.Fatal("the take's own dial should have failed")
		}
		u.set(func(u *upstream) { u.outcome = nil })
		after(time.Second)
		take(t, p, Hit)
		before := u.dialled()
		after(5 * time.Second)
		if n := u.dialled(); n != before {
			t.Errorf("%d dials while Retry-After was in force", n-before)
		}
		after(time.Second)
		idle(t, p, 1)
	})
}

// The success of a dial that was in flight says that the upstream is sound, and not that it may be dialled.
func TestRecoveryIsToldWhenRetryAfterIsOver(t *testing.T) {
	f := func(name string, size int) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay = time.Second
			told := make(chan time.Time, 10)
			p := u.pool(Config{Size: size, MaxDialing: 1, Events: func(e Event) {
				if e.Kind == EventRecovered {
					told <- time.Now()
				}
			}})
			synctest.Wait()
			u.set(func(u *upstream) {
				u.delay, u.outcome = 0, failing(&DialError{Class: ClassRateLimited, RetryAfter: 7 * time.Second})
			})
			if _, err := p.Take(t.Context()); err == nil {
				t.Fatalf("%s: the take's own dial should have failed", name)
			}
			over := time.Now().Add(7 * time.Second)
			u.set(func(u *upstream) { u.outcome = nil })
			after(time.Minute)
			idle(t, p, size)
			if len(told) != 1 {
				t.Fatalf("%s: recovery told %d times, want once", name, len(told))
			}
			if at := <-told; !at.Equal(over) {
				t.Errorf("%s: recovery told %s after the end of the Retry-After, want 0s", name, at.Sub(over))
			}
		})
	}
	f("a pool that is full meanwhile", 1)
	f("a pool that wants another session", 2)
}

func TestMissesDialDuringOtherBackOff(t *testing.T) {
	f := func(e *DialError) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.outcome = failing(e)
			p := u.pool(Config{Size: 4})
			synctest.Wait()
			if p.Stats().BackoffTill.IsZero() {
				t.Fatalf("%s: no back-off", e.Class)
			}
			u.set(func(u *upstream) { u.outcome = nil })
			take(t, p, Miss)
			// And what it learnt ends the back-off at once.
			idle(t, p, 4)
		})
	}
	f(&DialError{Class: ClassAuth})
	f(&DialError{Class: ClassNotFound})
	f(&DialError{Class: ClassRefused})
	f(&DialError{Class: ClassRateLimited})
}

func TestBackoffGrowsByRounds(t *testing.T) {
	b := newBackoff(&Config{MaxDialing: 16, BackoffMin: 250 * time.Millisecond, BackoffMax: 15 * time.Second, AuthBackoff: time.Minute})
	now := time.Now()
	for round, ms := range []int{500, 1000, 2000, 4000, 8000, 15000, 15000} {
		most := time.Duration(ms) * time.Millisecond
		started := now.Add(time.Millisecond)
		now = now.Add(time.Second)
		for range 16 { // together, they are one round
			b.fail(now, started, &DialError{Class: ClassRefused}, false)
		}
		if d := b.until.Sub(now); d < 250*time.Millisecond || d > most {
			t.Errorf("round %d: %s, want at most %s", round, d, most)
		}
		if b.rounds != round+1 || b.limit != 1 {
			t.Errorf("round %d: counted %d, concurrency %d", round, b.rounds, b.limit)
		}
		now = b.until
	}
	if !b.succeed(now) || b.rounds != 0 || now.Before(b.until) || b.limit != 2 {
		t.Errorf("a success: %+v", b)
	}
}

func TestPartialFailureLowersConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = 100 * time.Millisecond
		u.outcome = func(n int) error {
			if n%4 != 0 { // three of four fail
				return &DialError{Class: ClassRefused}
			}
			return nil
		}
		p := u.pool(Config{Size: 200})
		after(time.Second)
		most := 0
		for range 100 {
			after(50 * time.Millisecond)
			most = max(most, p.Stats().Dialing)
		}
		if most > 4 {
			t.Errorf("%d dials at a time while three of four fail", most)
		}
		if s := p.Stats(); s.Skipped[SkipConcurrency] == 0 && s.Skipped[SkipBackoff] == 0 {
			t.Errorf("unexplained: %v", s.Skipped)
		}
		u.set(func(u *upstream) { u.outcome = nil })
		after(5 * time.Second)
		idle(t, p, 200)
	})
}

func TestEventsTellFailureAndRecovery(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		events := make(chan Event, 100)
		set := NewSet()
		down := true
		p, err := set.GetOrCreate(Config{Size: 1, MaxDialing: 1, AuthBackoff: 9 * time.Second, Dial: func(ctx context.Context, life Lifeline) (Conn, error) {
			if down {
				down = false
				return nil, fmt.Errorf("handshake: %w", &DialError{Class: ClassAuth, Err: errors.New("401")})
			}
			return u.dial(ctx, life)
		}, Events: func(e Event) {
			for _, p := range set.List() { // a callback may call back
				p.Stats()
			}
			events <- e
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if e := <-events; e.Kind != EventDialFailed || e.Err.Class != ClassAuth || e.RetryIn != 9*time.Second {
			t.Errorf("event %+v", e)
		}
		if e := <-events; e.Kind != EventRecovered {
			t.Errorf("event %+v", e)
		}
		idle(t, p, 1)
		if len(events) != 0 {
			t.Errorf("and %d more", len(events))
		}
	})
}
