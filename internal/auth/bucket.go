package auth

import "time"

// bucket is a token bucket in its virtual form (GCRA): the one moment at which it will be full again says everything, so
// nothing ticks.
type bucket struct {
	full     time.Time
	interval time.Duration // in which one comes back, when full was worked out; 0: never
	burst    int
}

// take takes one of burst that come back at rate per second, or says how long until there is one. A rate of 0 is no bound.
func (b *bucket) take(now time.Time, rate float64, burst int) (wait time.Duration) {
	if rate == 0 {
		return 0
	}
	b.shape(now, time.Duration(float64(time.Second)/rate), burst)
	missing := max(0, b.full.Sub(now))
	if wait := missing - time.Duration(burst-1)*b.interval; wait > 0 {
		return wait
	}
	b.full = now.Add(missing + b.interval)
	return 0
}

// shape makes other bounds apply at once. What was taken stays taken, but comes back at the new rate, and is no more
// than all there is.
func (b *bucket) shape(now time.Time, interval time.Duration, burst int) {
	if b.interval == interval && b.burst == burst {
		return
	}
	if missing := b.full.Sub(now); missing > 0 {
		taken := float64(missing) / float64(b.interval)
		b.full = now.Add(time.Duration(min(taken, float64(burst)) * float64(interval)))
	}
	b.interval, b.burst = interval, burst
}
