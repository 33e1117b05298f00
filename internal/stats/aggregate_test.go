package stats

import (
	"sync"
	"testing"
	"time"
)

func TestSnapshotIsSortedAndHoldsOnlyWhatHappened(t *testing.T) {
	a := NewAggregate()
	a.Record(Bypass, PhaseDial, 3*time.Millisecond)
	a.Record(Hit, PhaseTurn, 2*time.Millisecond)
	a.Record(Hit, PhaseReady, time.Millisecond)
	a.Record(Hit, Phase(NumPhases), time.Millisecond)
	a.Record(Result(NumResults), PhaseReady, time.Millisecond)
	want := []struct {
		r Result
		p Phase
		d time.Duration
	}{{Hit, PhaseReady, time.Millisecond}, {Hit, PhaseTurn, 2 * time.Millisecond}, {Bypass, PhaseDial, 3 * time.Millisecond}}
	got := a.Snapshot()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Result != w.r || g.Phase != w.p || g.Count != 1 || g.P99 != w.d {
			t.Errorf("row %d = %+v, want %v %v %v", i, g, w.r, w.p, w.d)
		}
	}
}

func TestAggregateUnderConcurrentUse(t *testing.T) {
	a := NewAggregate()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				a.Record(Result(i%NumResults), Phase(j%NumPhases), time.Duration(j)*time.Microsecond)
				if j%250 == 0 {
					a.Snapshot()
				}
			}
		})
	}
	wg.Wait()
	var all Histogram
	for r := range NumResults {
		for p := range NumPhases {
			a.Merge(&all, Result(r), Phase(p))
		}
	}
	a.Merge(&all, Result(NumResults), PhaseReady)
	if all.Count() != 8000 {
		t.Errorf("%d samples, want 8000", all.Count())
	}
}

func TestNamesAreKnownAndDistinct(t *testing.T) {
	seen := map[string]bool{}
	for p := range NumPhases {
		n := Phase(p).String()
		if n == "" || n == "unknown" || seen[n] {
			t.Errorf("phase %d is named %q", p, n)
		}
		seen[n] = true
	}
	for r := range NumResults {
		if n := Result(r).String(); n == "" || n == "unknown" || seen[n] {
			t.Errorf("result %d is named %q", r, n)
		}
	}
	if Phase(NumPhases).String() != "unknown" || Result(NumResults).String() != "unknown" {
		t.Error("a value beyond the last has a name")
	}
}
