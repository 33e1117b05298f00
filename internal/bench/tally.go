package bench

import (
	"math"
	"sync"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
)

// quick is the session phase below which a client did not wait for the upstream.
const quick = time.Millisecond

// maxCauses bounds the distinct causes of failure a tally keeps; more are counted together.
const maxCauses = 64

// tally counts the calls of one leg. Its methods are safe for concurrent use until it is read.
type tally struct {
	mu       sync.Mutex
	ok       uint64
	quick    uint64
	unclean  uint64
	failures map[string]uint64
	pool     map[string]uint64 // of the successes
	ours     uint64            // failures of the generator
	took     [numPhases]stats.Histogram
}

func newTally() *tally { return &tally{failures: map[string]uint64{}, pool: map[string]uint64{}} }

func (t *tally) add(s *sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ours {
		t.ours++
	}
	if s.cause != "" {
		t.fail(s.cause, 1)
		return
	}
	t.ok++
	for p, d := range s.phases {
		t.took[p].Record(d)
	}
	if s.took[phaseSession] < quick {
		t.quick++
	}
	if !s.clean {
		t.unclean++
	}
	switch s.pool {
	case "hit", "miss", "bypass":
		t.pool[s.pool]++
	}
}

func (t *tally) fail(cause string, n uint64) {
	if _, known := t.failures[cause]; !known && len(t.failures) >= maxCauses {
		cause = "other causes"
	}
	t.failures[cause] += n
}

// merge adds what other counted.
func (t *tally) merge(other *tally) {
	t.ok += other.ok
	t.quick += other.quick
	t.unclean += other.unclean
	t.ours += other.ours
	for cause, n := range other.failures {
		t.fail(cause, n)
	}
	for result, n := range other.pool {
		t.pool[result] += n
	}
	for p := range t.took {
		t.took[p].Merge(&other.took[p])
	}
}

func (t *tally) failed() (n uint64) {
	for _, count := range t.failures {
		n += count
	}
	return n
}

// Figures are a distribution in milliseconds; all zero without samples.
type Figures struct {
	Count uint64  `json:"count"`
	Min   float64 `json:"min_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	Mean  float64 `json:"mean_ms"`
	// Spread is half the distance between the lowest and the highest value that the repeats gave; nil for one run.
	Spread *Spread `json:"spread,omitempty"`
	// Curve holds the quantiles 0, 0.01 … 1 of the phases that are drawn.
	Curve []float64 `json:"curve_ms,omitempty"`
}

// Spread of the figures over repeats, in milliseconds.
type Spread struct {
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
	Mean float64 `json:"mean_ms"`
}

func figures(h *stats.Histogram) Figures {
	s := h.Summary()
	return Figures{
		Count: s.Count, Min: ms(s.Min), P50: ms(s.P50), P90: ms(s.P90), P95: ms(h.Quantile(0.95)), P99: ms(s.P99), P999: ms(s.P999), Max: ms(s.Max), Mean: ms(s.Mean),
	}
}

func curve(h *stats.Histogram) []float64 {
	points := make([]float64, 0, 101)
	for i := range 101 {
		points = append(points, ms(h.Quantile(float64(i)/100)))
	}
	return points
}

// spread compares what several runs gave for one phase; nil when fewer than two have samples.
func spread(runs []Figures) *Spread {
	var low, high *Figures
	for i := range runs {
		f := &runs[i]
		switch {
		case f.Count == 0:
			continue
		case low == nil:
			low, high = &Figures{P50: f.P50, P95: f.P95, P99: f.P99, Mean: f.Mean}, &Figures{P50: f.P50, P95: f.P95, P99: f.P99, Mean: f.Mean}
			continue
		}
		low.P50, high.P50 = min(low.P50, f.P50), max(high.P50, f.P50)
		low.P95, high.P95 = min(low.P95, f.P95), max(high.P95, f.P95)
		low.P99, high.P99 = min(low.P99, f.P99), max(high.P99, f.P99)
		low.Mean, high.Mean = min(low.Mean, f.Mean), max(high.Mean, f.Mean)
	}
	if low == nil {
		return nil
	}
	half := func(a, b float64) float64 { return micros((b - a) / 2) }
	return &Spread{half(low.P50, high.P50), half(low.P95, high.P95), half(low.P99, high.P99), half(low.Mean, high.Mean)}
}

// ms is d in milliseconds, to the microsecond: less means nothing between processes.
func ms(d time.Duration) float64 { return micros(float64(d) / 1e6) }

func micros(v float64) float64 { return math.Round(v*1000) / 1000 }
