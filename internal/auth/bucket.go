package auth

import (
	"sync"
	"time"
)

// bucket is a token bucket in its virtual form (GCRA): the one moment at which it will be full again says everything, so
// nothing ticks and a changed rate applies at once.
type bucket struct {
	mu   sync.Mutex
	full time.Time
}

// take takes one of burst that come back at rate per second, or says how long until there is one. A rate of 0 is no bound.
func (b *bucket) take(now time.Time, rate float64, burst int) (wait time.Duration) {
	if rate == 0 {
		return 0
	}
	interval := time.Duration(float64(time.Second) / rate)
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.full
	if full.Before(now) {
		full = now
	}
	if wait := full.Sub(now) - time.Duration(burst-1)*interval; wait > 0 {
		return wait
	}
	b.full = full.Add(interval)
	return 0
}
