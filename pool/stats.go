package pool

import "time"

// Stats is one consistent look at a pool.
type Stats struct {
	Key, Name string

	Size, MaxSize, MaxConnections, MaxDialing int
	Paused                                    bool
	Generation                                uint64 // raised by Recycle

	Idle    int // sessions that can be taken
	Due     int // of Idle, those that wait for a replacement
	Dialing int // dials in flight
	Warming int // of Dialing, those that no Take owns
	Waiting int // Takes that wait for a dial
	Active  int // taken and neither Dead nor Released
	Closing int // closed by the pool and not yet gone

	Counters

	Blocked     Skip      // what stops warming at present
	BackoffTill time.Time // no warming dial before; zero: no back-off
	RefuseTill  time.Time // no dial at all before (Retry-After, quota); zero: none
	Failures    int       // rounds of failures since the last success
	Concurrency int       // warming dials allowed at a time, lowered by failures

	Oldest, Youngest time.Duration // ages of idle sessions; 0 without any
	NextRetirement   time.Time     // soonest time an idle session comes due or ends; zero: never
	SlowestDial      time.Duration // decaying maximum
}

// Counters count from New on.
type Counters struct {
	Takes     uint64 // = Hits + Misses
	Hits      uint64
	Misses    uint64 // takes that found nothing idle, whatever came of them
	Exhausted uint64 // misses refused for MaxConnections
	Refused   uint64 // misses refused for a Retry-After or quota back-off
	Canceled  uint64 // misses whose context ended first
	Dead      uint64 // Lease.Dead

	Dials          uint64 // started
	DialsSucceeded uint64
	DialsCanceled  uint64             // unwanted before they were done
	DialsFailed    [NumClasses]uint64 // by Class; early deaths, which succeeded before, included
	Evicted        [NumReasons]uint64 // by Reason
	Skipped        [NumSkips]uint64   // by Skip: dials that warming wanted and did not start

	LastError   *DialError // of the last failed dial; nil: none yet
	LastErrorAt time.Time
}

func (c *Counters) failed(now time.Time, e *DialError) {
	if int(e.Class) < NumClasses {
		c.DialsFailed[e.Class]++
	} else {
		c.DialsFailed[ClassOther]++
	}
	c.LastError, c.LastErrorAt = e, now
}

// Stats returns the state and the counters. It looks at every idle session: meant for once a second, not for every Take.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.unlock()
	now := time.Now()
	b := &p.backoff
	s := Stats{
		Key: p.key, Name: p.name,
		Size: p.size, MaxSize: p.cfg.MaxSize, MaxConnections: p.cfg.MaxConnections, MaxDialing: p.cfg.MaxDialing,
		Paused: p.paused, Generation: p.current,
		Idle: p.idle(), Due: p.due.len, Dialing: p.dials.len, Warming: p.warming, Waiting: p.waiters.len,
		Active: p.active, Closing: p.closing.len,
		Counters: p.counts, Blocked: p.blocked, Failures: b.rounds, Concurrency: b.limit, SlowestDial: p.slow,
	}
	if next := b.next(); now.Before(next) {
		s.BackoffTill = next
	}
	if now.Before(b.held) {
		s.RefuseTill = b.held
	}
	p.ages(&s, now)
	return s
}

func (p *Pool) ages(s *Stats, now time.Time) {
	for l := range p.fresh.all() {
		s.age(l, now)
		s.NextRetirement = earlier(s.NextRetirement, l.limits.due)
	}
	for l := range p.due.all() {
		s.age(l, now)
		s.NextRetirement = earlier(s.NextRetirement, l.limits.hard)
	}
}

func (s *Stats) age(l *Lease, now time.Time) {
	age := now.Sub(l.born)
	s.Oldest = max(s.Oldest, age)
	if s.Youngest == 0 || age < s.Youngest {
		s.Youngest = age
	}
}
