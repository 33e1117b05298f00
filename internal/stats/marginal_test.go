package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMarginalFindsTheSlopeInNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	covered := 0
	for range 200 {
		var r Regression
		for n := 0; n <= 1000; n += 40 {
			r.Add(n, uint64(20e6+2500*float64(n)+20e3*rng.NormFloat64()))
		}
		m, ok := r.Fit()
		if !ok || math.Abs(m.PerSession-2500) > 150 || m.From != 0 || m.To != 1000 {
			t.Fatalf("fit = %+v, %v", m, ok)
		}
		if m.Low <= 2500 && 2500 <= m.High {
			covered++
		}
	}
	if covered < 180 || covered > 199 { // 190 expected
		t.Errorf("the true slope is in %d of 200 intervals of 95%%", covered)
	}
}

func TestMarginalForgetsGarbage(t *testing.T) {
	var r Regression
	for _, n := range []int{0, 100, 200, 300, 400} {
		r.Add(n, uint64(1e6+1000*n))
	}
	for _, n := range []int{300, 200, 100, 0} {
		r.Add(n, 1e6+400*1000) // the sessions are gone, the memory is not
	}
	if m, ok := r.Fit(); !ok || math.Abs(m.PerSession-1000) > 1e-6 || m.Points != 5 {
		t.Errorf("fit = %+v, %v, want 1000", m, ok)
	}
	r.Add(300, 1e6+250*1000) // a better look at what 300 take
	if m, _ := r.Fit(); m.PerSession == 1000 {
		t.Error("a lower sample changed nothing")
	}
}

func TestMarginalSaysNothingWithoutEvidence(t *testing.T) {
	f := func(name string, sessions ...int) {
		t.Helper()
		var r Regression
		for _, n := range sessions {
			r.Add(n, uint64(n*1000))
		}
		if m, ok := r.Fit(); ok || m != (Marginal{}) && m.PerSession != 0 {
			t.Errorf("%s: %+v, %v", name, m, ok)
		}
	}
	f("nothing")
	f("one count", 5, 5, 5, 5, 5, 5)
	f("three points", 0, 100, 200)
	f("too close", 1, 2, 3, 4, 5)
	f("one load, wobbling", 1000, 1001, 1005, 1010, 999, 1004)
}

func TestRegressionIsBounded(t *testing.T) {
	var r Regression
	for n := 1; n < 1<<40; n += n/10 + 1 {
		r.Add(n, uint64(n))
	}
	if len(r.points) != marginalPoints {
		t.Errorf("%d points kept, want %d", len(r.points), marginalPoints)
	}
}

func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{2: 4.303, 8: 2.306, 9: 2.262, 10: 2.228, 15: 2.131, 20: 2.086, 30: 2.042, 62: 1.999} {
		if got := student95(freedom); math.Abs(got-want) > 0.005*want {
			t.Errorf("t(%d) = %.3f, want %.3f", freedom, got, want)
		}
	}
}
