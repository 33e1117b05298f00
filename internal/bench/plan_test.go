package bench

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
)

// within reports whether got is want within 5%, or below a millisecond's twentieth where want is zero.
func within(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= 0.05*float64(want)+float64(50*time.Microsecond)
}

// stall makes every call that would be answered between from and to, counted from the start, wait until to.
func stall(start time.Time, from, to time.Duration) {
	if at := time.Since(start); at >= from && at < to {
		time.Sleep(to - at)
	}
}

// Calls that were due while the target stood still count the whole wait, however many workers stood still with it.
func TestCaseO1AStallCountsForEveryCallThatWasDue(t *testing.T) {
	f := func(workers int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var (
				mu    sync.Mutex
				total stats.Histogram
			)
			none := func(time.Duration) {}
			start := time.Now()
			p := plan{calls: 1000, workers: workers, interval: 10 * time.Millisecond}
			p.run(t.Context(), func(_ context.Context, _ int, due time.Time) {
				stall(start, 4*time.Second, 6*time.Second)
				mu.Lock()
				defer mu.Unlock()
				total.Record(time.Since(due))
			}, none, none)
			if total.Count() != 1000 {
				t.Fatalf("%d calls, want 1000", total.Count())
			}
			for _, want := range []struct{ q, seconds float64 }{{0.9, 1}, {0.95, 1.5}, {0.99, 1.9}, {1, 2}} {
				if got := total.Quantile(want.q); !within(got, time.Duration(want.seconds*1e9)) {
					t.Errorf("%d workers: quantile %v is %v, want %v s", workers, want.q, got, want.seconds)
				}
			}
			if got := total.Quantile(0.5); got >= 10*time.Millisecond {
				t.Errorf("%d workers: the median is %v", workers, got)
			}
		})
	}
	f(1) // the worker itself stands still
	f(8)
	f(1000)
}

func TestAClosedLoopKeepsItsWorkersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[int]bool{}
		start, most, now := time.Now(), 0, 0
		plan{calls: 30, workers: 10}.run(t.Context(), func(_ context.Context, n int, due time.Time) {
			mu.Lock()
			now++
			most = max(most, now)
			seen[n] = true
			mu.Unlock()
			if !due.Equal(time.Now()) {
				t.Error("a call of a closed loop is due when it begins")
			}
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
		}, func(time.Duration) { t.Error("a closed loop is never late") }, func(time.Duration) { t.Error("nothing waits in a closed loop") })
		if len(seen) != 30 || most != 10 || time.Since(start) != 3*time.Second {
			t.Errorf("%d calls, %d at a time, in %v", len(seen), most, time.Since(start))
		}
	})
}

func TestAnOpenLoopTellsWaitingFromLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late, queued stats.Histogram // one worker: no lock is needed
		plan{calls: 3, workers: 1, interval: time.Second}.run(t.Context(), func(context.Context, int, time.Time) {
			time.Sleep(1500 * time.Millisecond)
		}, late.Record, queued.Record)
		if late.Count() != 1 || late.Quantile(1) != 0 {
			t.Errorf("late: %+v, want the first call alone, on time", late.Summary())
		}
		if queued.Count() != 2 || queued.Quantile(0) != 500*time.Millisecond || queued.Quantile(1) != time.Second {
			t.Errorf("waiting: %+v, want 0.5 and 1 s", queued.Summary())
		}
	})
}

func TestAPlanEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		calls, none := 0, func(time.Duration) {}
		start := time.Now()
		plan{calls: 100, workers: 1, interval: time.Second}.run(ctx, func(context.Context, int, time.Time) { calls++ }, none, none)
		if calls != 3 || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("%d calls in %v, want those due at 0, 1 and 2 s, and the end at once", calls, time.Since(start))
		}
	})
}

func TestWatchNoticesThatTheGeneratorIsLate(t *testing.T) {
	w := startWatch()
	w.wasLate(time.Second)
	g := w.stop()
	if reasons := g.saturated(time.Millisecond); len(reasons) != 1 {
		t.Errorf("%q for a generator that was a second late", reasons)
	}
	if reasons := (&Generator{CPUShare: 0.99, Seconds: 2}).saturated(time.Second); len(reasons) != 1 {
		t.Errorf("%q for a generator without a free CPU", reasons)
	}
	if reasons := (&Generator{CPUShare: 0.99, Seconds: 0.5}).saturated(time.Second); len(reasons) != 0 {
		t.Errorf("%q for a generator that has just started", reasons)
	}
	if reasons := (&Generator{CPUShare: 0.5, Seconds: 2}).saturated(time.Second); len(reasons) != 0 {
		t.Errorf("%q for a generator at ease", reasons)
	}
}
