package relay

import (
	"time"
	"unsafe"
)

// SessionBytes is what the engine keeps for a session that stands still, live or parked, in bytes. Counters.Held comes
// on top.
const SessionBytes = uint64(unsafe.Sizeof(session{}) + unsafe.Sizeof(Handler(nil)) + unsafe.Sizeof(Session{}))

// Inspect calls f on the loop that owns the session, with the loop's time and the session's counters, and waits for it:
// what the session's Handler writes there can be read there without a lock. The counters are zero once End was called.
// It reports false, and f does not run, when the engine has ended.
func (s *Session) Inspect(f func(at time.Duration, c Counters)) bool {
	return s.l.call(func() {
		s.l.refresh()
		var c Counters
		if s.l.valid(s.i, s.gen) {
			c = s.l.counters(s.l.at(s.i))
		}
		f(s.l.now, c)
	})
}
