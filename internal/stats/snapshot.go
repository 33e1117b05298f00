package stats

import (
	"maps"
	"slices"
	"sync"
)

// MaxTargets bounds the aggregates of a Set; what comes later is counted under OtherTarget.
const (
	MaxTargets  = 256
	OtherTarget = "other"
)

// Set holds an Aggregate per target. It is safe for concurrent use; the zero value is ready.
type Set struct {
	mu   sync.Mutex
	by   map[string]*Aggregate
	last *Snapshot
}

// Of returns the aggregate of a target, which is made when it is first asked for and never goes.
func (s *Set) Of(target string) *Aggregate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.by[target]; a != nil {
		return a
	}
	if len(s.by) >= MaxTargets {
		target = OtherTarget
		if a := s.by[target]; a != nil {
			return a
		}
	}
	if s.by == nil {
		s.by = map[string]*Aggregate{}
	}
	a := NewAggregate()
	s.by[target] = a
	return a
}

// Snapshot returns what the set holds now. Snapshots share what did not change between them, so that one of an idle
// gateway costs next to nothing.
func (s *Set) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &Snapshot{}
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		next.targets = append(next.targets, s.by[name].freeze(name, s.last.find(name)))
	}
	s.last = next
	return next
}

// Snapshot is the state of a Set at one moment. It does not change.
type Snapshot struct{ targets []frozen }

// Frozen is a histogram that does not change. Exemplars has one for every bucket of Bounds and one for what is beyond;
// nil where none were given.
type Frozen struct {
	Histogram
	Exemplars []Exemplar
}

// frozen is an aggregate that does not change.
type frozen struct {
	name   string
	cells  [NumResults][NumPhases]*Frozen // nil: no sample
	counts [NumResults]Counts
}

func (s *Snapshot) find(name string) *frozen {
	if s == nil {
		return nil
	}
	for i := range s.targets {
		if s.targets[i].name == name {
			return &s.targets[i]
		}
	}
	return nil
}

// Targets returns the names of the targets, sorted.
func (s *Snapshot) Targets() []string {
	var names []string
	for i := range s.targets {
		names = append(names, s.targets[i].name)
	}
	return names
}

// Of returns the part of s that is of one target.
func (s *Snapshot) Of(target string) *Snapshot {
	part := &Snapshot{}
	if f := s.find(target); f != nil {
		part.targets = append(part.targets, *f)
	}
	return part
}

// Cell returns the samples of one target, result and phase; nil where there are none.
func (s *Snapshot) Cell(target string, r Result, p Phase) *Frozen {
	f := s.find(target)
	if f == nil || int(r) >= NumResults || int(p) >= NumPhases {
		return nil
	}
	return f.cells[r][p]
}

// Counts returns the counters of one result, over all targets in s.
func (s *Snapshot) Counts(r Result) (sum Counts) {
	for i := range s.targets {
		sum = sum.Add(s.targets[i].counts[r])
	}
	return sum
}

// Total returns the counters over all targets in s and results.
func (s *Snapshot) Total() (sum Counts) {
	for r := range NumResults {
		sum = sum.Add(s.Counts(Result(r)))
	}
	return sum
}

// Merged returns the samples of one result and phase over all targets in s that came after before, an earlier snapshot
// or nil. It does not change.
func (s *Snapshot) Merged(before *Snapshot, r Result, p Phase) *Histogram {
	var parts []*Histogram
	for i := range s.targets {
		now := s.targets[i].cells[r][p]
		if now == nil {
			continue
		}
		var old *Frozen
		if was := before.find(s.targets[i].name); was != nil {
			old = was.cells[r][p]
		}
		switch {
		case old == nil:
			parts = append(parts, &now.Histogram)
		case old.count != now.count:
			parts = append(parts, now.Since(&old.Histogram))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	sum := &Histogram{}
	for _, h := range parts {
		sum.Merge(h)
	}
	return sum
}

// Rows summarizes the samples that came after before, an earlier snapshot or nil: by result, then by phase, without
// those that have none.
func (s *Snapshot) Rows(before *Snapshot) []Row {
	var rows []Row
	for r := range NumResults {
		for p := range NumPhases {
			if sum := s.Merged(before, Result(r), Phase(p)).Summary(); sum.Count > 0 {
				rows = append(rows, Row{Result(r), Phase(p), sum})
			}
		}
	}
	return rows
}
