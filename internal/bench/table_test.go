package bench

import (
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
)

func TestNumbersKeepThreeDigits(t *testing.T) {
	f := func(v float64, want string) {
		t.Helper()
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	f(0, "0.000")
	f(0.0004, "0.000")
	f(0.9994, "0.999")
	f(0.9996, "1.00")
	f(9.994, "9.99")
	f(9.996, "10.0")
	f(999.4, "999.4")
	f(1234.5, "1234")
	f(-0.5, "-0.500")
}

// 99.998% must not read as a hundred: somebody's call failed.
func TestPercentagesAreNotFlattered(t *testing.T) {
	f := func(v float64, want string) {
		t.Helper()
		if got := percentage(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	f(100, "100")
	f(99.998, "99.99")
	f(99.5, "99.50")
	f(99, "99.0")
	f(0, "0.0")
	if got := percent(99999, 100000); got != 99.999 {
		t.Errorf("99999 of 100000 is %v%%", got)
	}
}

func TestSpreadIsHalfTheRangeOfTheRepeats(t *testing.T) {
	got := spread([]Figures{{Count: 1, P50: 10, P95: 20, P99: 30, Mean: 12}, {}, {Count: 1, P50: 14, P95: 20, P99: 25, Mean: 13}})
	if got == nil || *got != (Spread{P50: 2, P95: 0, P99: 2.5, Mean: 0.5}) {
		t.Errorf("spread %+v", got)
	}
	if got := spread([]Figures{{}, {}}); got != nil {
		t.Errorf("spread of nothing %+v", got)
	}
}

// Workers are merged: a median of medians would be 10 or 1000 here.
func TestTalliesMergeTheirSamples(t *testing.T) {
	a, b := newTally(), newTally()
	for i := range 10 {
		s := sample{clean: true, pool: "hit"}
		s.took[phaseReady] = 10 * time.Millisecond
		if i >= 4 {
			s.took[phaseReady] = time.Second
		}
		a.add(&s)
		b.add(&sample{cause: "dial: timeout"})
		b.add(&sample{cause: "dial: generator: too many open files", ours: true})
	}
	a.merge(b)
	if a.ok != 10 || a.failed() != 20 || a.ours != 10 || a.pool["hit"] != 10 || a.took[phaseReadyHit].Count() != 10 {
		t.Errorf("%+v", a)
	}
	var h stats.Histogram
	h.Merge(&a.took[phaseReady])
	if f := figures(&h); f.P50 < 990 || f.Min != 10 || f.Max != 1000 {
		t.Errorf("figures %+v", f)
	}
}

func TestCausesAreBounded(t *testing.T) {
	a := newTally()
	for i := range 2 * maxCauses {
		a.fail(string(rune('a'+i)), 1)
	}
	if len(a.failures) != maxCauses+1 || a.failed() != 2*maxCauses {
		t.Errorf("%d causes of %d failures", len(a.failures), a.failed())
	}
}
