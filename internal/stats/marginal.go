package stats

import (
	"math"
	"slices"
)

const (
	// marginalPoints bounds the session counts that are remembered.
	marginalPoints = 64
	// marginalLeast and marginalSpread are the fewest points, and the fewest sessions between them, that say anything.
	marginalLeast  = 4
	marginalSpread = 8
)

// Marginal is what one more session costs: the slope of memory over sessions, in bytes, and its 95% interval.
type Marginal struct {
	PerSession, Low, High float64
	Points                int // session counts behind it
	From, To              int // the least and the most of them
}

// Regression finds what one more session costs from live samples. It keeps the least memory seen at each number of
// sessions, since garbage and what was not given back yet only ever add. The interval is that of an ordinary least
// squares fit; samples of a running process are not independent, so read it as a hint at the noise. The zero value is
// ready to use; it is not safe for concurrent use.
type Regression struct {
	points []point // in the order they were last seen
}

type point struct {
	sessions int
	bytes    uint64
}

// Add takes a sample: the memory at a number of sessions. Numbers within a fiftieth of each other are one point.
func (r *Regression) Add(sessions int, bytes uint64) {
	now := point{sessions, bytes}
	i := slices.IndexFunc(r.points, func(p point) bool { return alike(p.sessions, sessions) })
	if i >= 0 {
		if old := r.points[i]; old.bytes <= bytes {
			now = old
		}
		r.points = slices.Delete(r.points, i, i+1)
	} else if len(r.points) == marginalPoints {
		r.points = slices.Delete(r.points, 0, 1)
	}
	r.points = append(r.points, now)
}

func alike(a, b int) bool { return max(a-b, b-a) <= max(a, b)/50 }

// Fit returns the slope. ok is false while the samples say nothing: too few, or all at nearly the same number.
func (r *Regression) Fit() (m Marginal, ok bool) {
	n := len(r.points)
	if n < marginalLeast {
		return m, false
	}
	m.Points, m.From, m.To = n, math.MaxInt, 0
	var x, y float64
	for _, p := range r.points {
		x += float64(p.sessions) / float64(n)
		y += float64(p.bytes) / float64(n)
		m.From, m.To = min(m.From, p.sessions), max(m.To, p.sessions)
	}
	if m.To-m.From < marginalSpread {
		return Marginal{}, false
	}
	var xx, xy float64
	for _, p := range r.points {
		dx := float64(p.sessions) - x
		xx += dx * dx
		xy += dx * (float64(p.bytes) - y)
	}
	m.PerSession = xy / xx
	var residual float64
	for _, p := range r.points {
		e := float64(p.bytes) - y - m.PerSession*(float64(p.sessions)-x)
		residual += e * e
	}
	half := student95(n-2) * math.Sqrt(residual/float64(n-2)/xx)
	m.Low, m.High = m.PerSession-half, m.PerSession+half
	return m, true
}

// student95 is the two-sided 95% quantile of Student's t, within 0.5% from 2 degrees of freedom on.
func student95(freedom int) float64 {
	small := []float64{2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
	if freedom < len(small) {
		return small[freedom]
	}
	return 1.96 + 2.5/float64(freedom) + 2/float64(freedom*freedom)
}
