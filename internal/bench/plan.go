package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// plan says when calls begin. The zero interval is a closed loop: each worker begins the next call when its last one is
// over. Else the loop is open: call n is due n intervals after the start, however long others take.
type plan struct {
	calls    int
	workers  int // calls in flight at most
	interval time.Duration
}

// run makes the calls, numbered from 0, and returns when all are over, or those that had begun when ctx ended. late is
// told how long after its time a free worker began a call, and queued how long a call waited for a worker to become free;
// both only in an open loop, and both from several goroutines at once.
func (p plan) run(ctx context.Context, call func(ctx context.Context, n int, due time.Time), late, queued func(time.Duration)) {
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		start = time.Now()
	)
	for range min(p.workers, p.calls) {
		wg.Go(func() {
			for free := start; ctx.Err() == nil; free = time.Now() {
				n := int(next.Add(1)) - 1
				if n >= p.calls {
					return
				}
				due := free
				if p.interval > 0 {
					due = start.Add(time.Duration(n) * p.interval)
					if !sleepUntil(ctx, due) {
						return
					}
					if free.After(due) {
						queued(free.Sub(due))
					} else {
						late(time.Since(due))
					}
				}
				call(ctx, n, due)
			}
		})
	}
	wg.Wait()
}

// sleepUntil is false when ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	wait := time.Until(t)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
