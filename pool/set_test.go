package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlowPoolDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Hour
		fast := &upstream{t: t}
		set := NewSet()
		defer set.Close()
		for key, dial := range map[string]DialFunc{"slow": u.dial, "fast": fast.dial} {
			if _, err := set.GetOrCreate(Config{Key: key, Name: key, Size: 4, Dial: dial, DialTimeout: 24 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			idle(t, set.Get("fast"), 4)
			take(t, set.Get("fast"), Hit)
		}
		idle(t, set.Get("slow"), 0)
	})
}

func TestSetOwnsOnePoolPerKey(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		set := NewSet()
		var made sync.Map
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				p, err := set.GetOrCreate(Config{Key: "k", Name: "z", Size: 2, Dial: u.dial})
				if err != nil {
					t.Error(err)
				}
				made.Store(p, true)
			})
		}
		all.Wait()
		n := 0
		made.Range(func(any, any) bool { n++; return true })
		if n != 1 || set.Get("k") == nil || set.Get("other") != nil {
			t.Errorf("%d pools for one key", n)
		}
		if _, err := set.GetOrCreate(Config{Key: "bad", Name: "bad"}); err == nil {
			t.Error("a bad config is accepted")
		}
		for _, key := range []string{"b", "a"} {
			if _, err := set.GetOrCreate(Config{Key: key, Name: "a", Size: 1, Dial: u.dial}); err != nil {
				t.Fatal(err)
			}
		}
		var keys string
		for _, p := range set.List() {
			keys += p.Key()
		}
		if keys != "abk" {
			t.Errorf("listed %q, want by name, then key", keys)
		}
		set.Close()
		if _, err := set.GetOrCreate(Config{Key: "k", Dial: u.dial}); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed set: %v", err)
		}
		if open, _ := u.opened(); open != 0 {
			t.Errorf("%d sessions open", open)
		}
	})
}

func TestSetClosesItsPoolsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, _ *upstream) {
		set := NewSet()
		var dialling atomic.Int32
		for _, key := range []string{"a", "b", "c"} {
			_, err := set.GetOrCreate(Config{Key: key, Size: 1, Dial: func(ctx context.Context, _ Lifeline) (Conn, error) {
				dialling.Add(1)
				<-ctx.Done()
				time.Sleep(time.Second) // slow to give up
				return nil, ctx.Err()
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		start := time.Now()
		set.Close()
		if took := time.Since(start); took != time.Second || dialling.Load() != 3 {
			t.Errorf("%d pools closed in %s, want 3 in 1s", dialling.Load(), took)
		}
	})
}

func TestCaseB4NothingStaysInAnAbandonedPool(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = 50 * time.Millisecond
		set := NewSet()
		t.Cleanup(set.Close)
		get := func(key string) *Pool {
			p, err := set.GetOrCreate(Config{Key: key, Name: key, Size: 5, Dial: u.dial})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		key, other := "m1", "m2"
		p := get(key)
		after(time.Second)
		var active []*Lease
		for range 3 {
			l, _ := take(t, p, Hit)
			active = append(active, l)
		}
		for i := range 20 {
			if i%4 == 3 {
				set.Remove(key)
				key, other = other, key
				p = get(key)
			}
			if err := p.Resize(1 + i%7); err != nil {
				t.Fatal(err)
			}
			after(500 * time.Millisecond)
		}
		for _, l := range active {
			if c := l.Conn().(*fakeConn); !c.ended.IsZero() {
				t.Error("a session in use was closed")
			} else {
				c.end(nil)
			}
			l.Release()
		}
		after(5 * time.Second)
		want := p.Stats().Size
		idle(t, p, want)
		if open, _ := u.opened(); open != want || len(set.List()) != 1 {
			t.Errorf("%d open in %d pools, want %d in 1", open, len(set.List()), want)
		}
	})
}
