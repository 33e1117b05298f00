package pool

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Conn is a warm session as the pool sees it.
type Conn interface {
	// ExpiresAt is when the upstream will end the session; zero: never. It is read once, when the dial is done.
	ExpiresAt() time.Time
	// Close ends an idle session. It returns at once and never blocks; it may call its Lifeline.
	Close(Reason)
}

// DialFunc makes one ready session under ctx, whose deadline is DialTimeout from DNS to the ready frame. The session must
// outlive ctx, which ends when DialFunc returns.
//
// life is the session's, to tell of its end with.
//
// An error that is no *DialError counts as ClassTimeout when it is a context.DeadlineExceeded, else as ClassOther.
type DialFunc func(ctx context.Context, life Lifeline) (Conn, error)

// Config is what a Pool is told. Resize changes Size, Reconfigure everything else but Key and Name.
type Config struct {
	Key  string // identity of the target in a Set
	Name string // the target's name for people, in errors and in Stats

	Size           int // sessions to keep idle; default 0. Resize changes it
	MaxSize        int // upper bound of Size; default 4096
	MaxConnections int // upper bound of idle + dialling + active + closing sessions; default 0: unlimited
	MaxDialing     int // warming dials in flight at most; default 16. A miss's own dial does not count

	DialTimeout  time.Duration // the one deadline of a dial; default 10 s
	CloseTimeout time.Duration // how long a closed session counts as closing when its Lifeline is not told Closed; default 2 s
	MaxIdle      time.Duration // longest time a session is parked; default 0: unlimited
	MaxAge       time.Duration // longest age at which a session is handed out; default 0: unlimited
	MinRemaining time.Duration // least time to its expiry at which a parked session is handed out; default 0
	AgeJitter    time.Duration // how far before its limit a session may be retired; default a fifth of its life, never more than half
	Probation    time.Duration // a session that dies younger counts as a failed dial; default 5 s
	BackoffMin   time.Duration // shortest back-off; default 250 ms
	BackoffMax   time.Duration // longest exponential back-off; default 15 s
	AuthBackoff  time.Duration // back-off after ClassAuth, ClassNotFound, ClassConfig and ClassQuota; default 60 s

	Dial   DialFunc    // required
	Events func(Event) // what is worth a log line; nil: nobody asks. Called from any goroutine; must not block
}

// Event is something a person may want to read. Events of one pool may overtake each other.
type Event struct {
	Kind    EventKind
	Err     *DialError    // of EventDialFailed
	RetryIn time.Duration // of EventDialFailed: until the next warming dial; 0: at once
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	EventDialFailed EventKind = iota // a dial failed, or a session died within Probation
	EventRecovered                   // after failures a dial succeeded, and no back-off or Retry-After is in force
)

func (c Config) withDefaults() Config {
	c.MaxSize = cmp.Or(c.MaxSize, 4096)
	c.MaxDialing = cmp.Or(c.MaxDialing, 16)
	c.DialTimeout = cmp.Or(c.DialTimeout, 10*time.Second)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 2*time.Second)
	c.Probation = cmp.Or(c.Probation, 5*time.Second)
	c.BackoffMin = cmp.Or(c.BackoffMin, 250*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 15*time.Second)
	c.AuthBackoff = cmp.Or(c.AuthBackoff, time.Minute)
	return c
}

// Validate returns what New would find wrong with the values of c, Dial aside: it wraps ErrSize for a Size out of range.
func (c Config) Validate() error { return c.withDefaults().validate() }

func (c Config) validate() error {
	if c.MaxSize < 0 || c.MaxConnections < 0 || c.MaxDialing < 0 {
		return fmt.Errorf("max_size %d, max_connections %d and max_dialing %d must not be negative", c.MaxSize, c.MaxConnections, c.MaxDialing)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"dial_timeout", c.DialTimeout}, {"close_timeout", c.CloseTimeout}, {"max_idle", c.MaxIdle}, {"max_age", c.MaxAge},
		{"min_remaining", c.MinRemaining}, {"age_jitter", c.AgeJitter}, {"probation", c.Probation},
		{"backoff_min", c.BackoffMin}, {"backoff_max", c.BackoffMax}, {"auth_backoff", c.AuthBackoff},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %s must not be negative", d.name, d.value)
		}
	}
	if c.BackoffMin > c.BackoffMax {
		return fmt.Errorf("backoff_min %s is above backoff_max %s", c.BackoffMin, c.BackoffMax)
	}
	return c.checkSize(c.Size)
}

func (c Config) checkSize(n int) error {
	if n < 0 || n > c.MaxSize {
		return fmt.Errorf("%w: size %d is not between 0 and max_size %d", ErrSize, n, c.MaxSize)
	}
	return nil
}
