package stats

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Aggregate is a histogram for every result and phase of one target, and its counters. It is safe for concurrent use.
// Make it with NewAggregate, or let a Set do so.
type Aggregate struct {
	cells  [NumResults][NumPhases]cell
	counts [NumResults][NumCounters]atomic.Uint64
}

// cell has its own mutex, which is never held together with another: recorders of different phases do not meet.
type cell struct {
	mu        sync.Mutex
	h         Histogram
	exemplars []Exemplar // one per bucket of Bounds; nil until the first
}

// Bounds are the upper bounds of the buckets that keep an exemplar each; the last has none.
var Bounds = []time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Exemplar is one sample of a bucket and the session it is of. ID is empty where there is none.
type Exemplar struct {
	ID    string
	Value time.Duration
	At    time.Time
}

// NewAggregate returns an empty aggregate.
func NewAggregate() *Aggregate { return &Aggregate{} }

// Record counts one sample. A result or phase that does not exist is ignored.
func (a *Aggregate) Record(r Result, p Phase, d time.Duration) {
	if int(r) >= NumResults || int(p) >= NumPhases {
		return
	}
	c := &a.cells[r][p]
	c.mu.Lock()
	c.h.Record(d)
	c.mu.Unlock()
}

// RecordAll counts samples, for a caller that gathers them: what many do often is cheaper done in batches.
func (a *Aggregate) RecordAll(r Result, p Phase, samples []time.Duration) {
	if int(r) >= NumResults || int(p) >= NumPhases || len(samples) == 0 {
		return
	}
	c := &a.cells[r][p]
	c.mu.Lock()
	c.h.RecordAll(samples)
	c.mu.Unlock()
}

// RecordOf counts one sample of the session id, which its bucket remembers as its last.
func (a *Aggregate) RecordOf(id string, at time.Time, r Result, p Phase, d time.Duration) {
	if int(r) >= NumResults || int(p) >= NumPhases {
		return
	}
	bucket, _ := slices.BinarySearch(Bounds, d)
	c := &a.cells[r][p]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Record(d)
	if c.exemplars == nil {
		c.exemplars = make([]Exemplar, len(Bounds)+1)
	}
	c.exemplars[bucket] = Exemplar{id, d, at}
}

// Count adds n to a counter. A result or counter that does not exist is ignored.
func (a *Aggregate) Count(r Result, c Counter, n uint64) {
	if int(r) < NumResults && int(c) < NumCounters && n > 0 {
		a.counts[r][c].Add(n)
	}
}

// Row is the summary of one phase of the sessions with one result.
type Row struct {
	Result Result
	Phase  Phase
	Summary
}

// Merge adds what a holds of one result and phase to h, which is the caller's.
func (a *Aggregate) Merge(h *Histogram, r Result, p Phase) {
	if int(r) >= NumResults || int(p) >= NumPhases {
		return
	}
	c := &a.cells[r][p]
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Merge(&c.h)
}

// Snapshot returns a row for every result and phase that has samples, by result, then by phase. Each row is
// consistent in itself.
func (a *Aggregate) Snapshot() []Row {
	return (&Snapshot{targets: []frozen{a.freeze("", nil)}}).Rows(nil)
}

// freeze copies a. What did not change since before is shared with it.
func (a *Aggregate) freeze(name string, before *frozen) frozen {
	f := frozen{name: name}
	for r := range a.cells {
		for p := range a.cells[r] {
			var old *Frozen
			if before != nil {
				old = before.cells[r][p]
			}
			f.cells[r][p] = a.cells[r][p].freeze(old)
		}
		for c := range a.counts[r] {
			f.counts[r][c] = a.counts[r][c].Load()
		}
	}
	return f
}

func (c *cell) freeze(before *Frozen) *Frozen {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.h.count == 0:
		return nil
	case before != nil && before.count == c.h.count:
		return before
	}
	f := &Frozen{Exemplars: slices.Clone(c.exemplars)}
	f.Histogram.Merge(&c.h)
	return f
}
