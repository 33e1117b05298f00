package pool

import (
	"context"
	"testing"
	"time"
)

// instant is a session that costs nothing, so that only the pool is measured.
type instant struct{}

func (instant) ExpiresAt() time.Time { return time.Time{} }
func (instant) Close(Reason)         {}

func instantPool(tb testing.TB, size int) *Pool {
	tb.Helper()
	var conn Conn = instant{}
	p, err := New(Config{Name: "bench", Size: size, MaxAge: time.Hour, Dial: func(context.Context, Lifeline) (Conn, error) { return conn, nil }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	await(tb, func() bool { return p.Stats().Idle == size })
	return p
}

// putBack makes a taken session idle again, which no pool does, so that a hit can be measured without the dial behind it.
func (p *Pool) putBack(l *Lease) {
	p.mu.Lock()
	p.active--
	p.park(l)
	p.mu.Unlock()
}

func TestTakeHitDoesNotAllocate(t *testing.T) {
	p := instantPool(t, 64)
	p.Pause()
	ctx := t.Context()
	n := testing.AllocsPerRun(1000, func() {
		l, err := p.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p.putBack(l)
	})
	if n > 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

// BenchmarkTakeHit is Take of an idle session, and making it idle again.
func BenchmarkTakeHit(b *testing.B) {
	p := instantPool(b, 64)
	p.Pause()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Take(ctx)
		if err != nil {
			b.Fatal(err)
		}
		p.putBack(l)
	}
}

// BenchmarkTakeHitContended is the same from eight goroutines per processor.
func BenchmarkTakeHitContended(b *testing.B) {
	p := instantPool(b, 64)
	p.Pause()
	ctx := b.Context()
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := p.Take(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			p.putBack(l)
		}
	})
}

// BenchmarkTakeRefill is the whole round: Take, the wake-up, the dial in its goroutine and Release.
func BenchmarkTakeRefill(b *testing.B) {
	p := instantPool(b, 64)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Take(ctx)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

// BenchmarkSweep is one look at all sessions of the largest pool.
func BenchmarkSweep(b *testing.B) {
	p := instantPool(b, 4096)
	b.ReportAllocs()
	for b.Loop() {
		p.mu.Lock()
		p.sweep(time.Now())
		p.mu.Unlock()
	}
}
