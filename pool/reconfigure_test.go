package pool

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestReconfigureAppliesToWhatComesNext(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 2, MaxAge: time.Hour})
		idle(t, p, 2)
		second := &upstream{t: t}
		if err := p.Reconfigure(Config{Dial: second.dial, MaxAge: time.Minute, Size: 9, Key: "other", Name: "other"}); err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.Size != 2 || s.Idle != 2 || s.Name != "mock" || p.Key() != "" {
			t.Errorf("Reconfigure touched the size, the sessions or the name: %+v", s)
		}
		l, c := take(t, p, Hit)
		if c.up != u {
			t.Error("the session that was warm is not the one handed out")
		}
		defer l.Release()
		idle(t, p, 2)
		if n := second.dialled(); n != 1 {
			t.Fatalf("the new upstream was dialled %d times, want once, for the one taken", n)
		}
		after(2 * time.Minute)
		if n := len(second.live()); n != 1 || second.dialled() < 2 {
			t.Errorf("%d live, %d dialled: the new max_age does not hold for new sessions", n, second.dialled())
		}
		if n := len(u.live()); n != 2 { // one taken, one warm
			t.Errorf("%d live at the first upstream: those born under the old max_age keep it", n)
		}
	})
}

func TestReconfigureThenRecycleLeavesNothingOld(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 4})
		idle(t, p, 4)
		second := &upstream{t: t, delay: time.Second}
		if err := p.Reconfigure(Config{Dial: second.dial}); err != nil {
			t.Fatal(err)
		}
		p.Recycle()
		after(500 * time.Millisecond)
		if s := p.Stats(); s.Idle != 4 {
			t.Errorf("%d idle while the replacements are dialled, want 4", s.Idle)
		}
		after(time.Second)
		if len(u.live()) != 0 || len(second.live()) != 4 {
			t.Errorf("%d old and %d new sessions, want 0 and 4", len(u.live()), len(second.live()))
		}
	})
}

func TestReconfigureBounds(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		u.delay = time.Second
		p := u.pool(Config{Size: 8, MaxDialing: 2})
		after(100 * time.Millisecond)
		if s := p.Stats(); s.Dialing != 2 {
			t.Fatalf("%d dialling, want 2", s.Dialing)
		}
		if err := p.Reconfigure(Config{Dial: u.dial, MaxDialing: 6, MaxSize: 5, MaxConnections: 5}); err != nil {
			t.Fatal(err)
		}
		after(100 * time.Millisecond)
		if s := p.Stats(); s.Dialing != 5 || s.Size != 5 {
			t.Errorf("%d dialling for size %d, want 5 for 5", s.Dialing, s.Size)
		}
		if err := p.Resize(6); !errors.Is(err, ErrSize) {
			t.Errorf("resize above the new max_size: %v", err)
		}
		idle(t, p, 0)
		after(3 * time.Second)
		if _, peak := u.opened(); peak != 5 {
			t.Errorf("%d connections at once, want 5", peak)
		}
	})
}

func TestReconfigureThatFailsChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, u *upstream) {
		p := u.pool(Config{Size: 1, MaxSize: 7})
		f := func(cfg Config, want error) {
			t.Helper()
			if err := p.Reconfigure(cfg); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%+v: %v", cfg, err)
			}
			if s := p.Stats(); s.MaxSize != 7 {
				t.Errorf("%+v: max_size is now %d", cfg, s.MaxSize)
			}
		}
		f(Config{}, nil)
		f(Config{Dial: u.dial, MaxAge: -1}, nil)
		p.Close()
		f(Config{Dial: u.dial}, ErrClosed)
		if _, err := p.Take(context.Background()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
