package pool

import (
	"math/rand/v2"
	"time"
)

// strata draws numbers in [0,1) that are spread evenly over any run of consecutive draws: a walk by the golden ratio
// from a random start. Uniform draws would leave clusters, and sessions born together would then end together.
type strata struct{ next float64 }

func newStrata() strata { return strata{rand.Float64()} }

func (s *strata) draw() float64 {
	const golden = 0.6180339887498949
	u := s.next
	s.next += golden
	if s.next >= 1 {
		s.next--
	}
	return u
}

// limits of one parked session, drawn once at its birth. Zero times: never.
type limits struct {
	due    time.Time // from here on a replacement is wanted
	hard   time.Time // from here on it is not handed out
	reason Reason    // which limit hard is
}

// limits draws the limits of a session born now. lead is how long its replacement is expected to take.
func (c *Config) limits(born, expires time.Time, lead time.Duration, u float64) limits {
	var l limits
	tighten := func(at time.Time, r Reason) {
		if l.hard.IsZero() || at.Before(l.hard) {
			l.hard, l.reason = at, r
		}
	}
	if c.MaxIdle > 0 {
		tighten(born.Add(c.MaxIdle), ReasonIdle)
	}
	if c.MaxAge > 0 {
		tighten(born.Add(c.MaxAge), ReasonAge)
	}
	if !expires.IsZero() {
		tighten(expires.Add(-c.MinRemaining), ReasonExpired)
	}
	if l.hard.IsZero() {
		return l
	}
	l.due = l.hard.Add(-early(l.hard.Sub(born), c.AgeJitter, lead, u))
	return l
}

// early is how long before its hard limit a session with so much life is due. The replacement is ready lead after that, so
// that retirements fall within jitter of the limit as long as lead is less than half of jitter; a slower upstream starts
// earlier rather than leave a gap or forgo the spread.
func early(life, jitter, lead time.Duration, u float64) time.Duration {
	if jitter == 0 {
		jitter = life / 5
	}
	jitter = min(jitter, life/2)
	lead = min(lead, life/4)
	spread := max(jitter-lead, jitter/2)
	return lead + time.Duration(u*float64(spread))
}

// earlier is the earlier of two times, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func reached(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
