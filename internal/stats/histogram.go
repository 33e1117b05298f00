package stats

import (
	"math"
	"math/bits"
	"time"
)

// Every power of two from 2^subBits up is split into 2^subBits equal buckets, so a bucket is at most 1/64 of its
// values wide, and its middle at most 1/128 away from any of them. Values below 2^subBits ns are kept exactly.
const (
	subBits = 6
	perPage = 1 << subBits
	pages   = 63 - subBits + 1 // enough for every non-negative int64
)

// Histogram is a distribution of durations with nanosecond range and a relative error below 0.8%. The zero value is
// empty and ready to use. It grows by one page of 512 bytes per power of two that occurs, so that a histogram of latencies
// takes a few KiB. It must not be copied, and is not safe for concurrent use.
type Histogram struct {
	count    uint64
	sum      float64 // ns; a float so that no number of samples can overflow it
	min, max int64   // ns, true values; meaningful when count > 0
	page     [pages]*[perPage]uint64
}

// bucket returns where v is counted.
func bucket(v int64) (page, slot int) {
	shift := bits.Len64(uint64(v)) - subBits - 1
	if shift < 0 {
		return 0, int(v)
	}
	return shift + 1, int(v>>shift) & (perPage - 1)
}

// middle returns the middle of a bucket.
func middle(page, slot int) int64 {
	if page == 0 {
		return int64(slot)
	}
	shift := page - 1
	return int64(perPage+slot)<<shift + int64(1)<<shift>>1
}

// Record counts one sample. A negative one, which only a clock that went backwards can make, counts as zero.
func (h *Histogram) Record(d time.Duration) { h.RecordAll([]time.Duration{d}) }

// RecordAll counts samples, as Record does.
func (h *Histogram) RecordAll(samples []time.Duration) {
	if len(samples) == 0 {
		return
	}
	lo, hi, sum := int64(math.MaxInt64), int64(0), 0.0
	for _, d := range samples {
		v := max(int64(d), 0)
		p, s := bucket(v)
		page := h.page[p]
		if page == nil {
			page = new([perPage]uint64)
			h.page[p] = page
		}
		page[s]++
		lo, hi, sum = min(lo, v), max(hi, v), sum+float64(v)
	}
	h.widen(lo, hi)
	h.count += uint64(len(samples))
	h.sum += sum
}

// widen takes lo and hi into the true range; it must run before count changes.
func (h *Histogram) widen(lo, hi int64) {
	if h.count == 0 {
		h.min, h.max = lo, hi
		return
	}
	h.min, h.max = min(h.min, lo), max(h.max, hi)
}

// Merge adds the samples of other, which stays as it is.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	for p, from := range other.page {
		if from == nil {
			continue
		}
		if h.page[p] == nil {
			h.page[p] = new([perPage]uint64)
		}
		for s, n := range from {
			h.page[p][s] += n
		}
	}
	h.widen(other.min, other.max)
	h.count += other.count
	h.sum += other.sum
}

// Clone returns a copy.
func (h *Histogram) Clone() *Histogram {
	c := &Histogram{}
	c.Merge(h)
	return c
}

// Since returns the samples that h has and before, an earlier copy of it or nil, has not. Its minimum and maximum are
// within the histogram's error.
func (h *Histogram) Since(before *Histogram) *Histogram {
	if before == nil || before.count == 0 {
		return h.Clone()
	}
	d := &Histogram{count: h.count - before.count, sum: h.sum - before.sum}
	if d.count == 0 {
		return &Histogram{}
	}
	first := true
	for p, page := range h.page {
		if page == nil {
			continue
		}
		d.page[p] = new([perPage]uint64)
		for s, n := range page {
			if old := before.page[p]; old != nil {
				n -= old[s]
			}
			if d.page[p][s] = n; n == 0 {
				continue
			}
			d.max = min(max(middle(p, s), h.min), h.max)
			if first {
				d.min, first = d.max, false
			}
		}
	}
	return d
}

// Each calls f for every bucket that has samples, in ascending order, with its middle and its number of samples.
func (h *Histogram) Each(f func(middle time.Duration, n uint64)) {
	for p, page := range h.page {
		if page == nil {
			continue
		}
		for s, n := range page {
			if n > 0 {
				f(time.Duration(middle(p, s)), n)
			}
		}
	}
}

// Reset makes h empty and keeps its pages.
func (h *Histogram) Reset() {
	for _, p := range h.page {
		if p != nil {
			clear(p[:])
		}
	}
	h.count, h.sum = 0, 0
}

// Count returns the number of samples.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of the samples; what would exceed the largest Duration returns that.
func (h *Histogram) Sum() time.Duration {
	if h.sum >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(h.sum)
}

// Quantile returns the smallest sample that at least the share q of all samples does not exceed (nearest rank), within
// the histogram's error. q outside 0..1 is clamped; 0 and 1 are the true minimum and maximum. An empty histogram
// answers 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := nearestRank(q, h.count)
	switch {
	case h.count == 0:
		return 0
	case rank <= 1:
		return time.Duration(h.min)
	case rank >= h.count:
		return time.Duration(h.max)
	}
	var seen uint64
	for p, page := range h.page {
		if page == nil {
			continue
		}
		for s, n := range page {
			if seen += n; seen >= rank {
				return time.Duration(min(max(middle(p, s), h.min), h.max))
			}
		}
	}
	return time.Duration(h.max)
}

// nearestRank is ceil(q × n), forgiving what q × n gains by not being exact in binary (0.999 × 1000 is rank 999).
func nearestRank(q float64, n uint64) uint64 {
	if !(q > 0) {
		return 0
	}
	rank := min(q, 1) * float64(n)
	if whole := math.Round(rank); math.Abs(rank-whole) < 1e-9*whole {
		return uint64(whole)
	}
	return uint64(math.Ceil(rank))
}

// Summary is a histogram in a few figures. All are zero when Count is.
type Summary struct {
	Count                               uint64
	Min, P50, P90, P99, P999, Max, Mean time.Duration
}

// Summary computes h's figures.
func (h *Histogram) Summary() Summary {
	if h.count == 0 {
		return Summary{}
	}
	return Summary{
		Count: h.count,
		Min:   time.Duration(h.min),
		P50:   h.Quantile(0.50),
		P90:   h.Quantile(0.90),
		P99:   h.Quantile(0.99),
		P999:  h.Quantile(0.999),
		Max:   time.Duration(h.max),
		Mean:  time.Duration(h.sum / float64(h.count)),
	}
}
