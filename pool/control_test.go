package pool

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewChecksItsConfig(t *testing.T) {
	dial := (&upstream{t: t}).dial
	f := func(cfg Config, want string) {
		t.Helper()
		p, err := New(cfg)
		if err == nil {
			p.Close()
			t.Fatalf("%+v is accepted", cfg)
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"mock"`) {
			t.Errorf("error %q does not say %q and where", err, want)
		}
	}
	f(Config{Name: "mock"}, "Dial is nil")
	f(Config{Name: "mock", Dial: dial, Size: 5, MaxSize: 4}, "size 5 is not between 0 and max_size 4")
	f(Config{Name: "mock", Dial: dial, Size: 4097}, "max_size 4096")
	f(Config{Name: "mock", Dial: dial, MaxConnections: -1}, "max_connections -1")
	f(Config{Name: "mock", Dial: dial, MaxAge: -time.Second}, "max_age -1s")
	f(Config{Name: "mock", Dial: dial, BackoffMin: time.Minute}, "backoff_min 1m0s is above backoff_max 15s")
}

func TestResizeIsExact(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2, MaxSize: 50})
		for _, n := range []int{5, 3, 0, 50, 1} {
			if err := p.Resize(n); err != nil {
				t.Fatal(err)
			}
			if s := p.Stats(); s.Idle > n || s.Size != n {
				t.Errorf("right after Resize(%d): %+v", n, s)
			}
			idle(t, p, n)
			if open, _ := u.opened(); open != n {
				t.Errorf("size %d: %d sessions open", n, open)
			}
		}
		for _, n := range []int{-1, 51} {
			if err := p.Resize(n); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), "50") {
				t.Errorf("Resize(%d): %v", n, err)
			}
		}
		idle(t, p, 1)
	})
}

func TestShrinkClosesTheOldestIdle(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1})
		after(time.Second)
		if err := p.Resize(3); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		l, _ := take(t, p, Hit) // session 0
		after(time.Second)
		if err := p.Resize(1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := l.Conn().(*fakeConn); !c.ended.IsZero() {
			t.Error("a session in use was closed")
		}
		if live := u.live(); len(live) != 2 || live[1].id != 3 {
			t.Errorf("left %v, want the one in use and the newest", ids(live))
		}
		if s := p.Stats(); s.Evicted[ReasonResize] != 2 {
			t.Errorf("evicted %v", s.Evicted)
		}
	})
}

func TestShrinkAppliesToJoiningDials(t *testing.T) {
	f := func(stubborn bool) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay, u.stubborn = time.Second, stubborn
			p := u.pool(Config{Size: 10})
			after(500 * time.Millisecond)
			if err := p.Resize(3); err != nil {
				t.Fatal(err)
			}
			if s := p.Stats(); s.Warming != 3 {
				t.Errorf("%d dials still warm, want 3", s.Warming)
			}
			after(time.Second)
			idle(t, p, 3)
			if open, _ := u.opened(); open != 3 || u.dialled() != 10 {
				t.Errorf("%d open and %d dials, want 3 and 10", open, u.dialled())
			}
		})
	}
	f(false)
	f(true)
}

func TestShrinkCancelsTheNewestDials(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 3})
		after(500 * time.Millisecond)
		for _, n := range []int{6, 3} {
			if err := p.Resize(n); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		after(500 * time.Millisecond)
		idle(t, p, 3)
	})
}

func TestConcurrentResizesAreExact(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Millisecond
		p := u.pool(Config{Size: 5})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				time.Sleep(time.Duration(i%20) * time.Millisecond)
				if err := p.Resize(i % 40); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		after(time.Second)
		idle(t, p, p.Stats().Size)
		if err := p.Resize(17); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		idle(t, p, 17)
		if open, _ := u.opened(); open != 17 {
			t.Errorf("%d sessions open, want 17", open)
		}
	})
}

func TestPauseKeepsIdleAndStopsWarming(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		idle(t, p, 3)
		p.Pause()
		take(t, p, Hit)
		after(time.Minute)
		idle(t, p, 2)
		take(t, p, Hit)
		take(t, p, Hit)
		take(t, p, Miss) // clients dial cold
		idle(t, p, 0)
		if s := p.Stats(); !s.Paused || s.Dials != 4 || s.Blocked != SkipPaused {
			t.Errorf("paused: %+v", s)
		}
		p.Resume()
		idle(t, p, 3)
	})
}

func TestDrainClosesIdleAndLeavesTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		l, _ := take(t, p, Miss)
		idle(t, p, 3)
		u.set(func(u *upstream) { u.delay, u.stubborn = time.Second, true })
		if err := p.Resize(5); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		waiting := make(chan taken, 1)
		p.Drain()
		u.set(func(u *upstream) { u.delay = 2 * time.Second })
		go func() {
			l, err := p.Take(t.Context())
			waiting <- taken{l, err}
		}()
		idle(t, p, 0)
		for _, c := range []*fakeConn{u.session(0), u.session(1), u.session(2), u.session(3)} {
			if c.closed != (c.reason == ReasonDrain) || c.closed == (c == l.Conn()) {
				t.Errorf("session %d: closed %t for %s", c.id, c.closed, c.reason)
			}
		}
		after(time.Second)
		// One of the two cancelled dials made a session all the same, and the waiter is served by the first of them.
		if r := <-waiting; r.err != nil || r.lease.Result() != Miss {
			t.Errorf("a take while drained: %+v", r)
		}
		after(time.Minute)
		idle(t, p, 0)
		if open, _ := u.opened(); open != 2 {
			t.Errorf("%d open, want the two in use", open)
		}
		if s := p.Stats(); s.Evicted[ReasonDrain] != 3 || !s.Paused || s.Active != 2 {
			t.Errorf("drained: %+v", s)
		}
		p.Resume()
		after(2 * time.Second)
		idle(t, p, 5)
	})
}

func TestRecycleReplacesEverySession(t *testing.T) {
	f := func(name string, connections, least, active int) {
		t.Helper()
		bubble(t, func(t *testing.T, u *upstream) {
			t.Helper()
			u.delay, u.linger = 100*time.Millisecond, 10*time.Millisecond
			p := u.pool(Config{Size: 20, MaxConnections: connections})
			after(time.Second)
			idle(t, p, 20)
			var inUse *fakeConn
			if active > 0 {
				_, inUse = take(t, p, Hit)
			}
			after(time.Second)
			at := time.Now()
			p.Recycle()
			for range 800 {
				after(5 * time.Millisecond)
				if s := p.Stats(); s.Idle < least || s.Idle > 20 {
					t.Fatalf("%s: %d idle, want %d to 20", name, s.Idle, least)
				}
			}
			idle(t, p, 20)
			for _, c := range u.live() {
				if c.born.Before(at) && c != inUse {
					t.Errorf("%s: session %d is older than Recycle", name, c.id)
				}
			}
			if inUse != nil && !inUse.ended.IsZero() {
				t.Errorf("%s: a session in use was closed", name)
			}
			if s := p.Stats(); s.Evicted[ReasonRecycle] != 20 || s.Due != 0 {
				t.Errorf("%s: evicted %v", name, s.Evicted)
			}
			if _, peak := u.opened(); connections > 0 && peak > connections {
				t.Errorf("%s: %d connections at a time", name, peak)
			}
		})
	}
	f("room", 0, 20, 0)
	f("room for one", 22, 19, 1)
	f("no room", 20, 19, 0)
}

func TestRecycleReplacesWarmingDials(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay, u.stubborn = time.Second, true
		p := u.pool(Config{Size: 2})
		after(500 * time.Millisecond)
		p.Recycle()
		after(500 * time.Millisecond)
		idle(t, p, 0) // dialled with the old key
		after(500 * time.Millisecond)
		idle(t, p, 2)
	})
}

func TestRecycleWithABrokenUpstreamKeepsWhatWorks(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 4})
		idle(t, p, 4)
		u.set(func(u *upstream) { u.outcome = failing(&DialError{Class: ClassAuth}) })
		p.Recycle()
		after(time.Minute)
		idle(t, p, 4)
		u.set(func(u *upstream) { u.outcome = nil })
		after(time.Minute)
		idle(t, p, 4)
		if s := p.Stats(); s.Evicted[ReasonRecycle] != 4 {
			t.Errorf("evicted %v", s.Evicted)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 3})
		idle(t, p, 3)
		l, c := take(t, p, Hit)
		idle(t, p, 3)
		u.set(func(u *upstream) { u.delay = time.Hour })
		if err := p.Resize(6); err != nil {
			t.Fatal(err)
		}
		p.Recycle()
		for range 3 {
			take(t, p, Hit)
		}
		waiting := taking(t.Context(), p)
		var all sync.WaitGroup
		all.Go(p.Close)
		all.Go(p.Close)
		all.Wait()
		if r := <-waiting; !errors.Is(r.err, ErrClosed) {
			t.Errorf("a waiting take: %v", r.err)
		}
		if s := p.Stats(); s.Dialing != 0 || s.Idle != 0 || s.Waiting != 0 {
			t.Errorf("left: %+v", s)
		}
		if !c.ended.IsZero() {
			t.Error("a session in use was closed")
		}
		l.Release()
		l.Release()
		if s := p.Stats(); s.Active != 3 {
			t.Errorf("%d active after a release, want 3", s.Active)
		}
		if _, err := p.Take(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("take: %v", err)
		}
		if err := p.Resize(1); !errors.Is(err, ErrClosed) {
			t.Errorf("resize: %v", err)
		}
	})
}

func TestCloseClosesTheSessionOfALateDial(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay, u.stubborn = time.Second, true
		p := u.pool(Config{Size: 2})
		synctest.Wait()
		p.Close()
		if open, _ := u.opened(); open != 0 || u.session(0).reason != ReasonClosed {
			t.Errorf("%d open", open)
		}
	})
}
