package pool

import (
	"math/rand/v2"
	"time"
)

// maxRetryAfter bounds what an upstream can ask for: an hour of silence on a peer's word is enough.
const maxRetryAfter = time.Hour

// backoff decides when warming may dial and how many dials at a time.
//
// Failures come in rounds: those of dials that were started before the last round was counted tell nothing new, so that 16
// dials refused together lengthen the delay once. Each failed dial halves the concurrency and each success doubles it, which makes
// it follow the majority; a success also ends the delay. A session that died within Probation had been a success before, so
// after a death only a session that outlives Probation is one.
type backoff struct {
	min, max, auth time.Duration
	most           int // concurrency without failures

	rounds  int
	counted time.Time // when the last round was counted
	until   time.Time // no warming dial before, for other reasons than held
	held    time.Time // no dial at all before: Retry-After or quota. A success does not lift it
	holder  *DialError
	limit   int  // concurrency now
	deaths  bool // the last word was an early death
	owed    bool // a success ended the failures while held was in force: who asked is told when that is over
}

func newBackoff(c *Config) backoff {
	return backoff{min: c.BackoffMin, max: c.BackoffMax, auth: c.AuthBackoff, most: c.MaxDialing, limit: c.MaxDialing}
}

// fail counts a failed dial that was started at started, or, with death, a session of such a dial.
func (b *backoff) fail(now, started time.Time, e *DialError, death bool) {
	news := b.rounds == 0 || started.After(b.counted)
	switch {
	case e.RetryAfter > 0:
		b.hold(now.Add(min(e.RetryAfter, maxRetryAfter)), e)
	case e.Class == ClassQuota:
		b.hold(now.Add(b.auth), e)
	case e.Class == ClassAuth, e.Class == ClassNotFound, e.Class == ClassConfig:
		b.limit = 1
		b.until = later(b.until, now.Add(b.auth))
	case news:
		b.limit = max(1, b.limit/2)
		b.until = later(b.until, now.Add(b.delay(b.rounds+1)))
	case !death:
		b.limit = max(1, b.limit/2)
	}
	if news {
		b.rounds++
		b.counted = now
		b.owed = false
	}
	b.deaths = b.deaths || death
}

func (b *backoff) hold(until time.Time, e *DialError) {
	b.limit = 1
	if until.After(b.held) {
		b.held, b.holder = until, e
	}
}

// delay is exponential with full jitter, and never below min.
func (b *backoff) delay(round int) time.Duration {
	ceiling := b.max
	if shift := min(round, 30); b.min < b.max>>shift {
		ceiling = b.min << shift
	}
	return b.min + rand.N(ceiling-b.min+1)
}

// succeed counts a dial that made a session and reports whether dials are free again by that.
func (b *backoff) succeed(now time.Time) bool {
	if b.deaths {
		return false
	}
	b.limit = min(b.most, b.limit*2)
	return b.recover(now)
}

// prove counts a session that outlived Probation, and reports as succeed does.
func (b *backoff) prove(now time.Time) bool {
	b.deaths = false
	b.limit = b.most
	return b.recover(now)
}

func (b *backoff) recover(now time.Time) bool {
	b.owed = b.owed || b.rounds > 0
	b.rounds, b.until = 0, time.Time{}
	return b.freed(now)
}

// freed reports, once, that a success ended the failures and that nothing asked for by the upstream is in force any more.
func (b *backoff) freed(now time.Time) bool {
	yes := b.owed && !now.Before(b.held)
	b.owed = b.owed && !yes
	return yes
}

// next is when warming may dial again.
func (b *backoff) next() time.Time { return later(b.until, b.held) }

// refusal is the error of a dial that may not be made now, or nil.
func (b *backoff) refusal(now time.Time) *DialError {
	if !now.Before(b.held) {
		return nil
	}
	return &DialError{Class: b.holder.Class, RetryAfter: b.held.Sub(now), Err: b.holder.Err}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
