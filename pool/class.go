package pool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrClosed is returned once Close has begun.
	ErrClosed = errors.New("pool is closed")
	// ErrExhausted is returned by Take when a dial would exceed MaxConnections.
	ErrExhausted = errors.New("max_connections reached")
	// ErrSize is returned for a size below 0 or above MaxSize.
	ErrSize = errors.New("size out of range")

	errGone      = errors.New("the session ended")
	errNoSession = errors.New("the dial returned neither a session nor an error")
)

// Class sorts failed dials by what may help: it chooses the back-off.
type Class uint8

const (
	ClassOther       Class = iota // anything unclassified: exponential back-off
	ClassAuth                     // credentials refused: AuthBackoff
	ClassRateLimited              // too many requests: Retry-After, else exponential
	ClassQuota                    // no quota left: Retry-After, else AuthBackoff; misses are refused meanwhile
	ClassNotFound                 // no such model or path: AuthBackoff
	ClassRefused                  // no connection: exponential
	ClassTimeout                  // DialTimeout passed: exponential
	ClassEarlyDeath               // the session died within Probation: exponential, until one survives it
	ClassProtocol                 // the peer broke the protocol: exponential
	ClassConfig                   // what a session is to be configured with is refused: AuthBackoff

	NumClasses = int(ClassConfig) + 1
)

var classNames = [NumClasses]string{"other", "auth", "rate_limited", "quota", "not_found", "refused", "timeout", "early_death", "protocol", "config"}

// String returns the name used in metrics.
func (c Class) String() string { return name(classNames[:], int(c)) }

// DialError is a failed dial.
type DialError struct {
	Class      Class
	RetryAfter time.Duration // how long the upstream asked to be left alone; 0: it did not say
	Err        error         // the cause, with secrets already redacted; may be nil
}

func (e *DialError) Error() string {
	s := "dial failed (" + e.Class.String() + ")"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf("; retry after %s", e.RetryAfter.Round(time.Millisecond))
	}
	return s
}

func (e *DialError) Unwrap() error { return e.Err }

// classify turns whatever a dial or a death reported into a *DialError; fallback is the class of an error that has none.
func classify(err error, fallback Class) *DialError {
	if err == nil {
		err = errGone
	}
	if e, ok := errors.AsType[*DialError](err); ok {
		return e
	}
	if fallback == ClassOther && errors.Is(err, context.DeadlineExceeded) {
		fallback = ClassTimeout
	}
	return &DialError{Class: fallback, Err: err}
}

// Reason says why a session left the idle list other than by being taken.
type Reason uint8

const (
	ReasonIdle    Reason = iota // parked for MaxIdle
	ReasonAge                   // alive for MaxAge
	ReasonExpired               // its expiry came within MinRemaining
	ReasonResize                // the pool shrank
	ReasonDrain                 // Drain: going away
	ReasonRecycle               // Recycle: replaced by a newer generation
	ReasonSurplus               // dialled for a miss that another session served, and no room to keep it, or an old generation
	ReasonClosed                // the pool closed
	ReasonGone                  // it died while parked; its Conn is not closed again

	NumReasons = int(ReasonGone) + 1
)

var reasonNames = [NumReasons]string{"idle", "age", "expired", "resize", "drain", "recycle", "surplus", "closed", "gone"}

// String returns the name used in metrics.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Skip says why a dial that warming wanted was not started.
type Skip uint8

const (
	SkipNone           Skip = iota
	SkipPaused              // Pause or Drain
	SkipRetryAfter          // a Retry-After or quota back-off is in force
	SkipBackoff             // another back-off is in force
	SkipMaxConnections      // MaxConnections reached
	SkipMaxDialing          // MaxDialing warming dials already in flight
	SkipConcurrency         // failures have lowered the warming concurrency

	NumSkips = int(SkipConcurrency) + 1
)

var skipNames = [NumSkips]string{"none", "paused", "retry_after", "backoff", "max_connections", "max_dialing", "concurrency"}

// String returns the name used in metrics.
func (s Skip) String() string { return name(skipNames[:], int(s)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
