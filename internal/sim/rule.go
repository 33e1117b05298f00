package sim

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
)

// ErrRule is wrapped by every error of ParseRule.
var ErrRule = errors.New("sim: bad failure rule")

type action uint8

const (
	actNone action = iota
	actStatus
	actClose
	actReset
	actFIN
	actHang
	actError
)

// Rule is one failure to act out, made by ParseRule.
type Rule struct {
	act        action
	status     int
	retryAfter string
	code       ws.StatusCode
	reason     string
	errorCode  string        // message in reason
	upgraded   bool          // acts after the 101
	after      time.Duration // since the 101
	on         string        // type of the client event to act on, "" for none
	first      int           // 0: no end
	rate       float64       // 0: every dial
}

// ParseRule reads a failure rule: comma-separated parts, exactly one of which is an action.
//
//	status=N             answer the upgrade request with this HTTP status (200-599) instead of 101
//	close=CODE[:REASON]  accept, then close with this code and reason (at most 123 bytes, no comma)
//	reset                end the TCP connection with a reset
//	fin                  end the TCP connection without a Close frame
//	hang                 fall silent: nothing is answered any more, the connection stays
//	error=CODE[:MESSAGE] send an error event (no comma in the message), after which the session goes on
//
//	after=DURATION       act this long after the 101. Not for status.
//	on=TYPE              act when the client sends its first event of this type, in place of an answer to it. Not for
//	                     status, nor beside after. With neither, reset, fin and hang act instead of the 101, close and
//	                     error right behind it.
//	retry-after=VALUE    send this Retry-After header, as written. Only for status.
//	first=N              act on the first N dials the rule applies to, then never again
//	rate=P               act on this share of the dials (0 < P <= 1), evenly spread: 0.25 is every fourth
//
// The error names the part that is wrong and wraps ErrRule.
func ParseRule(s string) (Rule, error) {
	var r Rule
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		key, value, hasValue := strings.Cut(strings.TrimSpace(part), "=")
		if seen[key] {
			return Rule{}, fmt.Errorf("%w %q: %q is given twice", ErrRule, s, key)
		}
		seen[key] = true
		if err := r.set(key, value, hasValue); err != nil {
			return Rule{}, fmt.Errorf("%w %q: %w", ErrRule, s, err)
		}
	}
	switch {
	case r.act == actNone:
		return Rule{}, fmt.Errorf("%w %q: it has no action; add one of status=N, close=CODE, error=CODE, reset, fin, hang", ErrRule, s)
	case r.act == actStatus && (seen["after"] || seen["on"]):
		return Rule{}, fmt.Errorf("%w %q: \"after\" and \"on\" need a 101, which \"status\" never sends; drop one of them", ErrRule, s)
	case seen["after"] && seen["on"]:
		return Rule{}, fmt.Errorf("%w %q: \"after\" and \"on\" are two moments; a rule has one", ErrRule, s)
	case r.act != actStatus && seen["retry-after"]:
		return Rule{}, fmt.Errorf("%w %q: \"retry-after\" needs \"status\"", ErrRule, s)
	}
	r.upgraded = seen["after"] || seen["on"] || r.act == actClose || r.act == actError
	return r, nil
}

func (r *Rule) set(key, value string, hasValue bool) error {
	if act, ok := actions[key]; ok {
		if r.act != actNone {
			return fmt.Errorf("%q is a second action; a rule has one", key)
		}
		r.act = act
	}
	valueless := key == "reset" || key == "fin" || key == "hang"
	switch {
	case valueless && hasValue:
		return fmt.Errorf("%q takes no value", key)
	case !valueless && parsers[key] == nil:
		return fmt.Errorf("unknown part %q", key)
	case valueless:
		return nil
	case value == "":
		return fmt.Errorf("%q needs a value", key)
	}
	return parsers[key](r, value)
}

var actions = map[string]action{"status": actStatus, "close": actClose, "error": actError, "reset": actReset, "fin": actFIN, "hang": actHang}

var parsers = map[string]func(r *Rule, value string) error{
	"status": func(r *Rule, v string) (err error) {
		if r.status, err = strconv.Atoi(v); err != nil || r.status < 200 || r.status > 599 {
			return fmt.Errorf("status %q is not a number from 200 to 599", v)
		}
		return nil
	},
	"close": (*Rule).setClose,
	"error": func(r *Rule, v string) error {
		r.errorCode, r.reason, _ = strings.Cut(v, ":")
		return nil
	},
	"after": func(r *Rule, v string) (err error) {
		if r.after, err = time.ParseDuration(v); err != nil || r.after < 0 {
			return fmt.Errorf("after %q is not a duration such as 50ms", v)
		}
		return nil
	},
	"on": func(r *Rule, v string) error {
		r.on = v
		return nil
	},
	"retry-after": func(r *Rule, v string) error {
		if strings.ContainsAny(v, "\r\n") {
			return errors.New("retry-after holds a line break")
		}
		r.retryAfter = v
		return nil
	},
	"first": func(r *Rule, v string) (err error) {
		if r.first, err = strconv.Atoi(v); err != nil || r.first < 1 {
			return fmt.Errorf("first %q is not a positive number", v)
		}
		return nil
	},
	"rate": func(r *Rule, v string) (err error) {
		if r.rate, err = strconv.ParseFloat(v, 64); err != nil || !(r.rate > 0 && r.rate <= 1) {
			return fmt.Errorf("rate %q is not a number above 0 and up to 1", v)
		}
		return nil
	},
}

func (r *Rule) setClose(v string) error {
	code, reason, _ := strings.Cut(v, ":")
	n, err := strconv.ParseUint(code, 10, 16)
	r.code, r.reason = ws.StatusCode(n), reason
	if err != nil || !validCloseCode(r.code) {
		return fmt.Errorf("close code %q may not be sent in a Close frame", code)
	}
	if len(reason) > ws.MaxControlFramePayloadSize-2 {
		return fmt.Errorf("close reason of %d bytes is longer than 123", len(reason))
	}
	return nil
}

// armedRule is a rule with its counts.
type armedRule struct {
	Rule
	mu    sync.Mutex
	seen  int
	acted int
}

// strike reports whether the rule acts on the dial at hand.
func (a *armedRule) strike() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first > 0 && a.acted >= a.first {
		return false
	}
	a.seen++
	if a.rate > 0 && math.Floor(float64(a.seen)*a.rate) == math.Floor(float64(a.seen-1)*a.rate) {
		return false
	}
	a.acted++
	return true
}
