package pool

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestCaseA3LifetimesAreSpread(t *testing.T) {
	f := func(name string, cfg Config, delay time.Duration, low, high time.Duration) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay = delay
			cfg.Size = 50
			p := u.pool(cfg)
			after(40 * time.Second)
			idle(t, p, 50)
			var lives []time.Duration
			var ends []time.Time
			for i := range 50 {
				c := u.session(i)
				lives = append(lives, c.ended.Sub(c.born))
				ends = append(ends, c.ended)
				if c.reason != ReasonAge && c.reason != ReasonIdle {
					t.Errorf("%s: session %d closed for %s", name, i, c.reason)
				}
			}
			if slices.Min(lives) < low || slices.Max(lives) > high {
				t.Errorf("%s: lifetimes %s to %s, want within %s to %s", name, slices.Min(lives), slices.Max(lives), low, high)
			}
			if d := deviation(lives); d < time.Second {
				t.Errorf("%s: standard deviation %s, want at least 1s", name, d)
			}
			if n := crowd(ends, 500*time.Millisecond); n > 10 {
				t.Errorf("%s: %d closes within 500ms, want at most 10", name, n)
			}
		})
	}
	cfg := Config{MaxAge: 10 * time.Second, AgeJitter: 5 * time.Second}
	f("age", cfg, 0, 5*time.Second, 10*time.Second)
	f("age with slow dials", cfg, 500*time.Millisecond, 5*time.Second, 10*time.Second)
	f("idle", Config{MaxIdle: 10 * time.Second, AgeJitter: 5 * time.Second}, 20*time.Millisecond, 5*time.Second, 10*time.Second)
}

func deviation(values []time.Duration) time.Duration {
	var sum, squares float64
	for _, v := range values {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(values))
	return time.Duration(math.Sqrt(squares/n - sum/n*sum/n))
}

// crowd is the largest number of times within one window.
func crowd(times []time.Time, window time.Duration) int {
	slices.SortFunc(times, time.Time.Compare)
	most, from := 0, 0
	for i, at := range times {
		for at.Sub(times[from]) > window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

func TestStrataLeaveNoClusters(t *testing.T) {
	for _, n := range []int{8, 50, 500} {
		s := newStrata()
		bins := make([]int, n/4)
		for range n {
			u := s.draw()
			if u < 0 || u >= 1 {
				t.Fatalf("drew %v", u)
			}
			bins[int(u*float64(len(bins)))]++
		}
		if low, high := slices.Min(bins), slices.Max(bins); low < 2 || high > 6 {
			t.Errorf("%d draws: %d to %d per bin, expected 4", n, low, high)
		}
	}
}

func TestEarlyStaysWithinJitter(t *testing.T) {
	f := func(life, jitter, lead, u, want time.Duration) {
		t.Helper()
		if got := early(life, jitter, lead, float64(u)/100); got != want {
			t.Errorf("early(%s, %s, %s, %d%%) = %s, want %s", life, jitter, lead, u, got, want)
		}
	}
	f(100, 20, 0, 0, 0)
	f(100, 20, 0, 50, 10)
	f(100, 20, 4, 0, 4)
	f(100, 20, 4, 100, 20)   // the whole jitter
	f(100, 0, 0, 100, 20)    // the default, a fifth
	f(100, 90, 0, 100, 50)   // never more than half a life
	f(100, 20, 18, 100, 28)  // slow dials start earlier, and half of the spread stays
	f(100, 20, 500, 100, 35) // but not before half a life
}

func TestSlowestDialIsForgottenByAndBy(t *testing.T) {
	var p Pool
	for i, want := range []time.Duration{800, 700, 900, 800} {
		p.observe([]time.Duration{800, 0, 900, 100}[i])
		if p.slow != want {
			t.Errorf("after dial %d: %d, want %d", i, p.slow, want)
		}
	}
}

func TestSweepsKeepTheirDistance(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 100, MaxAge: 10 * time.Second})
		after(time.Second)
		next := p.Stats().NextRetirement
		p.mu.Lock()
		defer p.mu.Unlock()
		now := next.Add(-time.Millisecond)
		if p.sweep(now); !p.sweepAt.Equal(now.Add(sweepGap)) {
			t.Errorf("next sweep %s later, want %s", p.sweepAt.Sub(now), sweepGap)
		}
	})
}

func TestCaseC7ReplacedBeforeRetired(t *testing.T) {
	f := func(name string, cfg Config, delay time.Duration, least int) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay = delay
			cfg.Size = 10
			p := u.pool(cfg)
			after(delay)
			for p.Stats().Idle < 10 {
				after(10 * time.Millisecond)
			}
			end := time.Now().Add(30 * time.Second)
			for time.Now().Before(end) {
				s := p.Stats()
				if s.Idle < least || s.Idle > 10 {
					t.Fatalf("%s: %d idle, want %d to 10: %+v", name, s.Idle, least, s)
				}
				after(10 * time.Millisecond)
			}
			for _, c := range u.live() {
				if age := time.Since(c.born); age > 3*time.Second+sweepGap {
					t.Errorf("%s: a session is %s old", name, age)
				}
			}
			if s := p.Stats(); s.Dials < 60 {
				t.Errorf("%s: %d dials in ten generations of 10", name, s.Dials)
			}
		})
	}
	f("max_age", Config{MaxAge: 3 * time.Second}, 500*time.Millisecond, 10)
	f("max_idle", Config{MaxIdle: 3 * time.Second}, 500*time.Millisecond, 10)
	f("no jitter to speak of", Config{MaxAge: 3 * time.Second, AgeJitter: time.Nanosecond}, 500*time.Millisecond, 10)
	f("one to spare", Config{MaxAge: 3 * time.Second, MaxConnections: 11}, 50*time.Millisecond, 9)
	f("no room", Config{MaxAge: 3 * time.Second, MaxConnections: 10}, 50*time.Millisecond, 8)
}

func TestSessionStaysUntilItsReplacementIsReady(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 1, MaxAge: 100 * time.Second, AgeJitter: 20 * time.Second, DialTimeout: time.Hour})
		after(time.Second)
		u.set(func(u *upstream) { u.delay = time.Hour })
		first := u.session(0)
		for p.Stats().Due == 0 && first.ended.IsZero() {
			after(time.Second)
		}
		if age := time.Since(first.born); age < 80*time.Second || age >= 100*time.Second {
			t.Errorf("due at %s", age)
		}
		idle(t, p, 1)
		if !first.ended.IsZero() || p.Stats().Warming != 1 {
			t.Error("closed before its replacement was ready")
		}
		after(100*time.Second + sweepGap - time.Since(first.born))
		if age := first.ended.Sub(first.born); age < 100*time.Second || age > 100*time.Second+sweepGap {
			t.Errorf("without a replacement it ended at %s, want at its limit", age)
		}
	})
}

func TestPausedPoolAges(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 5, MaxIdle: 10 * time.Second})
		idle(t, p, 5)
		p.Pause()
		after(10*time.Second - time.Millisecond)
		idle(t, p, 5)
		after(time.Millisecond + sweepGap)
		idle(t, p, 0)
		if n := u.dialled(); n != 5 {
			t.Errorf("%d dials, want none after Pause", n)
		}
		synctest.Wait()
		if open, _ := u.opened(); open != 0 {
			t.Errorf("%d sessions open past their limit", open)
		}
	})
}
