package stats

import (
	"sync"
	"time"
)

// Aggregate is a histogram for every result and phase. It is safe for concurrent use. Make it with NewAggregate.
type Aggregate struct {
	cells [NumResults][NumPhases]cell
}

// cell has its own mutex, which is never held together with another: recorders of different phases do not meet.
type cell struct {
	mu sync.Mutex
	h  Histogram
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

// Row is the summary of one phase of the sessions with one result.
type Row struct {
	Result Result
	Phase  Phase
	Summary
}

// Snapshot returns a row for every result and phase that has samples, by result, then by phase. Each row is
// consistent in itself.
func (a *Aggregate) Snapshot() []Row {
	var rows []Row
	for r := range a.cells {
		for p := range a.cells[r] {
			c := &a.cells[r][p]
			c.mu.Lock()
			s := c.h.Summary()
			c.mu.Unlock()
			if s.Count > 0 {
				rows = append(rows, Row{Result(r), Phase(p), s})
			}
		}
	}
	return rows
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
