package relay

import (
	"slices"
	"time"
	"unsafe"
)

// SessionBytes is what the engine keeps for a session that stands still, live or parked, in bytes. Counters.Working
// and Held come on top.
const SessionBytes = uint64(unsafe.Sizeof(session{}) + unsafe.Sizeof(Handler(nil)) + unsafe.Sizeof(Session{}))

// Inspect calls f on the loop that owns the session, with the loop's time and the session's counters, and waits for it:
// what the session's Handler writes there can be read there without a lock. The counters are zero once End was called.
// It reports false, and f does not run, when the engine has ended.
func (s *Session) Inspect(f func(at time.Duration, c Counters)) bool {
	return s.l.call(func() {
		s.l.refresh()
		s.inspect(f)
	})
}

func (s *Session) inspect(f func(at time.Duration, c Counters)) {
	var c Counters
	if s.l.valid(s.i, s.gen) {
		s.l.tellBoth(s.i, s.l.at(s.i))
	}
	if s.l.valid(s.i, s.gen) {
		c = s.l.counters(s.l.at(s.i))
	}
	f(s.l.now, c)
}

// lookAtOnce is how many sessions are looked at in a row: few enough that no frame waits for it, many enough that a loop is
// seldom woken.
const lookAtOnce = 32

// InspectEach is Inspect for many sessions, with their places in sessions. A loop is interrupted for a few of them at a
// time; the calls of f do not overlap. f does not run for sessions of an engine that has ended.
func InspectEach(sessions []*Session, f func(n int, at time.Duration, c Counters)) {
	of := map[*loop][]int{}
	for n, s := range sessions {
		of[s.l] = append(of[s.l], n)
	}
	for l, places := range of {
		for some := range slices.Chunk(places, lookAtOnce) {
			l.call(func() {
				l.refresh()
				for _, n := range some {
					sessions[n].inspect(func(at time.Duration, c Counters) { f(n, at, c) })
				}
			})
		}
	}
}
