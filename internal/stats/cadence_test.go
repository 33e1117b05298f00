package stats

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestCadenceJudgesAGapByTheSessionsOwnMedian(t *testing.T) {
	f := func(period time.Duration) {
		t.Helper()
		var c Cadence
		at := time.Hour
		for range 20 {
			if j, ok := c.In(at); ok && j != 0 {
				t.Errorf("period %v: an even chunk has jitter %v", period, j)
			}
			at += period
		}
		if c.Median() != period {
			t.Errorf("median = %v, want %v", c.Median(), period)
		}
		if j, ok := c.In(at + 7*time.Millisecond); !ok || j != 7*time.Millisecond {
			t.Errorf("period %v: 7 ms late = %v, %v", period, j, ok)
		}
		if j, ok := c.In(at + period); !ok || j != 7*time.Millisecond {
			t.Errorf("period %v: back on time = %v, %v", period, j, ok)
		}
		if j, ok := c.In(at + period); !ok || j != period {
			t.Errorf("period %v: two chunks at once = %v, %v", period, j, ok)
		}
	}
	for _, ms := range []time.Duration{20, 40, 100, 1000} {
		f(ms * time.Millisecond)
	}
}

func TestCadenceTellsTheWayOutFromTheWayIn(t *testing.T) {
	var c Cadence
	at := time.Second
	for range 10 {
		c.In(at)
		if j, ok := c.Out(at + time.Millisecond); ok && j != 0 {
			t.Errorf("a constant delay has jitter %v", j)
		}
		at += 20 * time.Millisecond
	}
	c.In(at)
	if j, ok := c.Out(at + 6*time.Millisecond); !ok || j != 5*time.Millisecond {
		t.Errorf("held 5 ms longer = %v, %v", j, ok)
	}
}

func TestCadenceLeavesPausesOut(t *testing.T) {
	var c Cadence
	at := time.Second
	step := func(gap time.Duration) (time.Duration, bool) {
		at += gap
		return c.In(at)
	}
	for range 10 {
		step(20 * time.Millisecond)
	}
	if j, ok := step(Pause); ok {
		t.Errorf("a pause has jitter %v", j)
	}
	if j, ok := step(Pause - time.Nanosecond); !ok || j != Pause-time.Nanosecond-20*time.Millisecond {
		t.Errorf("a stall just below a pause = %v, %v", j, ok)
	}
	c.Break()
	if j, ok := step(500 * time.Millisecond); ok {
		t.Errorf("the first chunk of another stream has jitter %v", j)
	}
	if c.Median() != 20*time.Millisecond {
		t.Errorf("median = %v after the break, want 20 ms", c.Median())
	}
	var fresh Cadence
	for i := range 1 + cadenceLeast {
		if j, ok := fresh.In(time.Duration(i+1) * time.Second); ok {
			t.Errorf("chunk %d of a new stream is judged: %v", i, j)
		}
	}
}

func TestCadenceFollowsAChangeOfPace(t *testing.T) {
	var c Cadence
	at := time.Second
	for range 30 {
		at += 20 * time.Millisecond
		c.In(at)
	}
	for range cadenceWindow/2 + 1 {
		at += 100 * time.Millisecond
		c.In(at)
	}
	if c.Median() != 100*time.Millisecond {
		t.Errorf("median = %v, want 100 ms", c.Median())
	}
}

func TestCadenceMedianIsThatOfTheLastGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var c Cadence
	var gaps []time.Duration
	at := time.Second
	c.In(at)
	for range 2000 {
		gap := time.Duration(rng.IntN(50)) * time.Millisecond
		at += gap
		c.In(at)
		gaps = append(gaps, gap)
		last := slices.Sorted(slices.Values(gaps[max(0, len(gaps)-cadenceWindow):]))
		if want := last[len(last)/2]; c.Median() != want {
			t.Fatalf("after %d gaps: median %v, want %v", len(gaps), c.Median(), want)
		}
	}
}

func BenchmarkCadence(b *testing.B) {
	var c Cadence
	b.ReportAllocs()
	at := time.Second
	for b.Loop() {
		at += 20*time.Millisecond + at%7919
		c.In(at)
		c.Out(at)
	}
}
