package pool

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress does everything at once on the real clock, and checks what must hold at any time.
func TestStress(t *testing.T) {
	const connections = 40
	goroutines := runtime.NumGoroutine()
	u := &upstream{t: t, delay: 500 * time.Microsecond, linger: 200 * time.Microsecond}
	u.outcome = func(int) error {
		if rand.N(10) == 0 {
			return &DialError{Class: Class(rand.N(NumClasses)), Err: errors.New("by chance")}
		}
		return nil
	}
	p, err := New(Config{
		Name: "mock", Dial: u.dial, Size: 10, MaxSize: 30, MaxConnections: connections, MaxDialing: 8, MaxIdle: 20 * time.Millisecond, MaxAge: 30 * time.Millisecond,
		Probation: time.Millisecond, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, AuthBackoff: 3 * time.Millisecond, Events: func(Event) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	loop := func(n int, f func()) {
		for range n {
			all.Go(func() {
				for ctx.Err() == nil {
					f()
				}
			})
		}
	}
	var served atomic.Int64
	loop(12, func() {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.N(3000))*time.Microsecond)
		defer cancel()
		l, err := p.Take(ctx)
		if err != nil {
			runtime.Gosched()
			return
		}
		served.Add(1)
		c := l.Conn().(*fakeConn)
		u.set(func(*upstream) {
			if c.taken++; c.taken > 1 || c.closed {
				t.Errorf("session %d: taken %d times, closed %t", c.id, c.taken, c.closed)
			}
		})
		time.Sleep(time.Duration(rand.N(2000)) * time.Microsecond)
		c.end(nil)
		if rand.N(4) == 0 {
			l.Dead(nil)
		}
		l.Release()
	})
	pause := func() { time.Sleep(time.Duration(rand.N(3000)) * time.Microsecond) }
	loop(1, func() {
		pause()
		if live := u.live(); len(live) > 0 {
			live[rand.N(len(live))].kill()
		}
	})
	loop(2, func() { pause(); _ = p.Resize(rand.N(31)) })
	loop(1, func() {
		pause()
		switch rand.N(8) {
		case 0:
			p.Pause()
		case 1:
			p.Drain()
		case 2:
			p.Recycle()
		default:
			p.Resume()
		}
	})
	loop(1, func() {
		pause()
		s := p.Stats()
		if s.Idle > s.Size || s.Idle+s.Dialing+s.Active+s.Closing > connections || s.Takes != s.Hits+s.Misses || s.Warming > s.Dialing {
			t.Errorf("out of bounds: %+v", s)
		}
	})
	all.Wait()
	if _, peak := u.opened(); peak > connections {
		t.Errorf("%d connections at a time, want at most %d", peak, connections)
	}
	if served.Load() < 100 {
		t.Errorf("%d takes served", served.Load())
	}

	u.set(func(u *upstream) { u.outcome = nil })
	p.Resume()
	if err := p.Resize(7); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { s := p.Stats(); return s.Idle == 7 && s.Due == 0 && s.Active == 0 })
	p.Close()
	await(t, func() bool { open, _ := u.opened(); return open == 0 })
	await(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 })
}

// await polls, for there is no event: what it waits for is the end of goroutines and timers.
func await(tb testing.TB, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatal("not within 10s")
		}
	}
}
