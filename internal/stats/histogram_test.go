package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const tolerance = 0.008 // the documented relative error

func near(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= tolerance*float64(want)
}

func TestCaseN4QuantilesOfKnownSamples(t *testing.T) {
	f := func(name string, samples []int, q float64, wantMs int, exact bool) {
		t.Helper()
		var h Histogram
		for _, ms := range samples {
			h.Record(time.Duration(ms) * time.Millisecond)
		}
		got, want := h.Quantile(q), time.Duration(wantMs)*time.Millisecond
		if exact && got != want || !near(got, want) {
			t.Errorf("%s: quantile %v = %v, want %v", name, q, got, want)
		}
	}
	thousand := make([]int, 1000)
	for i := range thousand {
		thousand[i] = i + 1
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		f("one sample", []int{500}, q, 500, true)
	}
	f("1..1000", thousand, 0.5, 500, false)
	f("1..1000", thousand, 0.9, 900, false)
	f("1..1000", thousand, 0.99, 990, false)
	f("1..1000", thousand, 0.999, 999, false)
	f("1..1000", thousand, 0, 1, true)
	f("1..1000", thousand, 1, 1000, true)
	f("two samples", []int{1, 1000}, 0.5, 1, true)
	f("two samples", []int{1, 1000}, 0.51, 1000, true)
	f("none", nil, 0.5, 0, true)
}

func TestCaseN4RankIsExact(t *testing.T) {
	f := func(q float64, n, want uint64) {
		t.Helper()
		if got := nearestRank(q, n); got != want {
			t.Errorf("rank of %v in %d = %d, want %d", q, n, got, want)
		}
	}
	for n := uint64(1); n <= 20000; n++ {
		f(0.5, n, (n*500+999)/1000)
		f(0.9, n, (n*900+999)/1000)
		f(0.99, n, (n*990+999)/1000)
		f(0.999, n, (n*999+999)/1000)
	}
	f(math.NaN(), 10, 0)
	f(-1, 10, 0)
	f(2, 10, 10)
}

func TestSummary(t *testing.T) {
	var h Histogram
	if got := h.Summary(); got != (Summary{}) {
		t.Errorf("summary of nothing = %+v", got)
	}
	for i := 1; i <= 1000; i++ {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	got := h.Summary()
	want := Summary{Count: 1000, Min: time.Microsecond, Max: time.Millisecond, Mean: 500500 * time.Nanosecond}
	if got.Count != want.Count || got.Min != want.Min || got.Max != want.Max || got.Mean != want.Mean {
		t.Errorf("summary = %+v, want %+v besides the quantiles", got, want)
	}
	if !near(got.P50, 500*time.Microsecond) || !near(got.P90, 900*time.Microsecond) || !near(got.P99, 990*time.Microsecond) || !near(got.P999, 999*time.Microsecond) {
		t.Errorf("quantiles = %+v", got)
	}
}

func TestQuantilesAgreeWithTheSortedSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var samples []time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(rng.Float64() * 43)) // 1 ns … about 150 years, evenly over the powers
		samples = append(samples, d)
		h.Record(d)
	}
	slices.Sort(samples)
	for q := 0.001; q < 1; q += 0.001 {
		want := samples[nearestRank(q, uint64(len(samples)))-1]
		if got := h.Quantile(q); !near(got, want) {
			t.Errorf("quantile %.3f = %d, want %d", q, got, want)
		}
	}
}

func TestEdgesOfTheRange(t *testing.T) {
	var h Histogram
	h.Record(-time.Second)
	h.Record(math.MaxInt64)
	h.Record(math.MaxInt64)
	if got := h.Quantile(0); got != 0 {
		t.Errorf("a negative sample is %v, want 0", got)
	}
	if got := h.Quantile(0.5); !near(got, math.MaxInt64) {
		t.Errorf("median = %d, want the largest duration", got)
	}
	if got := h.Sum(); got != math.MaxInt64 {
		t.Errorf("sum = %d, want the largest duration", got)
	}
	for shift := range 63 {
		for _, v := range []int64{1<<shift - 1, 1 << shift, 1<<shift + 1} {
			p, s := bucket(v)
			if m := middle(p, s); math.Abs(float64(m-v)) > tolerance*float64(v) {
				t.Errorf("%d is counted in a bucket around %d", v, m)
			}
		}
	}
}

func TestMergeEqualsRecordingTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b, both Histogram
	for i := range 5000 {
		d := time.Duration(rng.Int64N(int64(10 * time.Second)))
		both.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	before := b.Summary()
	a.Merge(&b)
	a.Merge(&Histogram{})
	if got, want := a.Summary(), both.Summary(); got != want {
		t.Errorf("merged = %+v, want %+v", got, want)
	}
	if b.Summary() != before {
		t.Error("merging changed the source")
	}
	var empty Histogram
	empty.Merge(&b)
	if empty.Summary() != before {
		t.Errorf("merged into nothing = %+v, want %+v", empty.Summary(), before)
	}
	a.Reset()
	if a.Summary() != (Summary{}) || a.Quantile(0.5) != 0 {
		t.Error("reset left samples behind")
	}
}

func TestRecordAllocatesNothingOnceItsRangeIsKnown(t *testing.T) {
	a := NewAggregate()
	a.Record(Hit, PhaseReady, time.Millisecond)
	if n := testing.AllocsPerRun(1000, func() { a.Record(Hit, PhaseReady, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations per record, want 0", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	a := NewAggregate()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		d := time.Millisecond
		for pb.Next() {
			a.Record(Hit, PhaseReady, d)
			d += time.Microsecond
		}
	})
}
