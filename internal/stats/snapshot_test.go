package stats

import (
	"fmt"
	"testing"
	"time"
)

func TestSetCountsByTarget(t *testing.T) {
	var s Set
	a, b := s.Of("a"), s.Of("b")
	if s.Of("a") != a || a == b {
		t.Error("a target has more than one aggregate, or shares one")
	}
	a.Record(Hit, PhaseReady, time.Millisecond)
	a.Record(Hit, PhaseReady, 3*time.Millisecond)
	b.Record(Hit, PhaseReady, 5*time.Millisecond)
	b.Record(Miss, PhaseDial, 7*time.Millisecond)
	a.Count(Hit, Completed, 2)
	b.Count(Miss, Completed, 3)
	b.Count(Result(NumResults), Completed, 9)
	b.Count(Hit, Counter(NumCounters), 9)
	snap := s.Snapshot()
	if rows := snap.Rows(nil); len(rows) != 2 || rows[0].Count != 3 || rows[0].Max != 5*time.Millisecond || rows[1].Phase != PhaseDial {
		t.Errorf("all targets: %+v", rows)
	}
	if rows := snap.Of("a").Rows(nil); len(rows) != 1 || rows[0].Count != 2 || rows[0].Max != 3*time.Millisecond {
		t.Errorf("target a: %+v", rows)
	}
	if rows := snap.Of("none").Rows(nil); len(rows) != 0 {
		t.Errorf("unknown target: %+v", rows)
	}
	if got := snap.Total()[Completed]; got != 5 {
		t.Errorf("%d completed, want 5", got)
	}
	if got := snap.Counts(Hit)[Completed]; got != 2 {
		t.Errorf("%d completed by hits, want 2", got)
	}
	if names := snap.Targets(); len(names) != 2 || names[0] != "a" || names[1] != "b" {
		t.Errorf("targets %q", names)
	}
	if snap.Cell("a", Miss, PhaseDial) != nil || snap.Cell("b", Miss, PhaseDial).Count() != 1 || snap.Cell("b", Result(NumResults), PhaseDial) != nil {
		t.Error("Cell finds what is not there, or not what is")
	}
}

func TestSnapshotsAnswerForTheTimeBetweenThem(t *testing.T) {
	var s Set
	s.Of("a").Record(Hit, PhaseReady, time.Second)
	s.Of("a").Count(Hit, Started, 4)
	first := s.Snapshot()
	s.Of("a").Record(Hit, PhaseReady, time.Millisecond)
	s.Of("a").Record(Hit, PhaseReady, 2*time.Millisecond)
	s.Of("b").Record(Hit, PhaseReady, 4*time.Millisecond)
	s.Of("a").Count(Hit, Started, 2)
	second := s.Snapshot()
	rows := second.Rows(first)
	if len(rows) != 1 || rows[0].Count != 3 {
		t.Fatalf("between: %+v", rows)
	}
	if r := rows[0]; !near(r.Min, time.Millisecond) || !near(r.P50, 2*time.Millisecond) || !near(r.Max, 4*time.Millisecond) || !near(r.Mean, 7*time.Millisecond/3) {
		t.Errorf("between: %+v", r)
	}
	if got := second.Total().Sub(first.Total())[Started]; got != 2 {
		t.Errorf("%d started between, want 2", got)
	}
	if rows := first.Rows(nil); len(rows) != 1 || rows[0].Count != 1 {
		t.Errorf("the first snapshot changed: %+v", rows)
	}
	if rows := second.Rows(second); len(rows) != 0 {
		t.Errorf("nothing happened within a moment: %+v", rows)
	}
	if third := s.Snapshot(); third.Cell("a", Hit, PhaseReady) != second.Cell("a", Hit, PhaseReady) {
		t.Error("what did not change was copied")
	}
}

func TestSetIsBounded(t *testing.T) {
	var s Set
	for i := range MaxTargets + 10 {
		s.Of(fmt.Sprintf("target %d", i)).Record(Hit, PhaseReady, time.Millisecond)
	}
	snap := s.Snapshot()
	if n := len(snap.Targets()); n != MaxTargets+1 {
		t.Errorf("%d targets, want %d and the rest as one", n, MaxTargets)
	}
	if n := snap.Cell(OtherTarget, Hit, PhaseReady).Count(); n != 10 {
		t.Errorf("%d samples of the rest, want 10", n)
	}
}

func TestExemplarsNameTheLastSessionOfABucket(t *testing.T) {
	var s Set
	a, now := s.Of("a"), time.Unix(1000, 0)
	a.RecordOf("s1", now, Hit, PhaseReady, 700*time.Microsecond)
	a.RecordOf("s2", now, Hit, PhaseReady, time.Millisecond) // a bound belongs to its bucket
	a.RecordOf("s3", now, Hit, PhaseReady, time.Hour)
	a.RecordOf("s4", now, Result(NumResults), PhaseReady, time.Hour)
	f := s.Snapshot().Cell("a", Hit, PhaseReady)
	if f.Count() != 3 || len(f.Exemplars) != len(Bounds)+1 {
		t.Fatalf("%d samples, %d exemplars", f.Count(), len(f.Exemplars))
	}
	for i, e := range f.Exemplars {
		want := Exemplar{}
		switch {
		case i == len(Bounds):
			want = Exemplar{"s3", time.Hour, now}
		case Bounds[i] == time.Millisecond:
			want = Exemplar{"s2", time.Millisecond, now}
		}
		if e != want {
			t.Errorf("bucket %d: %+v, want %+v", i, e, want)
		}
	}
	a.RecordOf("s5", now, Hit, PhaseReady, time.Hour)
	if f.Exemplars[len(Bounds)].ID != "s3" {
		t.Error("a snapshot changed")
	}
}

func TestBucketsAddUp(t *testing.T) {
	var h Histogram
	for i := range 1000 {
		h.Record(time.Duration(i*i) * time.Microsecond)
	}
	var n uint64
	last := time.Duration(-1)
	h.Each(func(middle time.Duration, count uint64) {
		if middle <= last {
			t.Errorf("bucket %v behind %v", middle, last)
		}
		n, last = n+count, middle
	})
	if n != 1000 {
		t.Errorf("%d samples, want 1000", n)
	}
}
