package daemon

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/rtd-project/rtd/internal/stats"
)

const (
	// maxOpen bounds the responses of a session that are followed at a time, and the requests for one that wait.
	maxOpen = 32
	// spareOpen is how many of them an unused activity keeps room for.
	spareOpen = 4
)

// activity is what a session needs only while something goes on in it.
type activity struct {
	pace    [2]pace         // by direction
	open    []turn          // responses in progress, the oldest first
	asked   []time.Duration // when responses were asked for that have not begun, the oldest first
	turnEnd time.Duration   // when the user's turn ended, until a response begins; 0 is not seen
}

// turn holds the marks of a response. Zero: not seen.
type turn struct {
	key                        uint64 // of its id; 0 when the upstream does not say
	start                      time.Duration
	created, text, audio, done time.Duration
	cut                        bool // interrupted, and counted
}

// bytes is the size of all that a holds.
func (a *activity) bytes() int {
	return int(unsafe.Sizeof(*a)) + cap(a.open)*int(unsafe.Sizeof(turn{})) + cap(a.asked)*int(unsafe.Sizeof(time.Duration(0)))
}

var activities = sync.Pool{New: func() any { return new(activity) }}

// activate returns the session's activity.
func (p *progress) activate() *activity {
	if p.active == nil {
		p.active = activities.Get().(*activity)
	}
	return p.active
}

// release gives the activity back.
func (p *progress) release() {
	if p.active == nil {
		return
	}
	a := p.active
	p.active = nil
	*a = activity{open: spare(a.open), asked: spare(a.asked)}
	activities.Put(a)
}

func spare[T any](s []T) []T {
	if cap(s) > spareOpen {
		return nil
	}
	return s[:0]
}

// rest gives the activity back if nothing goes on any more.
func (p *progress) rest(now time.Duration) {
	a := p.active
	if a == nil || len(a.open)+len(a.asked) > 0 || a.turnEnd != 0 {
		return
	}
	for dir := range a.pace {
		c := &a.pace[dir]
		if last := c.Last(); c.waiting > 0 || last != 0 && now-last < stats.Pause {
			return
		}
	}
	p.release()
}

// ask takes note of a request for a response.
func (a *activity) ask(at time.Duration) {
	if len(a.asked) == maxOpen {
		a.asked = slices.Delete(a.asked, 0, 1)
	}
	a.asked = append(a.asked, at)
}

// begin opens a response that answers the oldest request, or the turn that ended if that is earlier. asked is false when
// there was neither. lost counts the responses that had to be given up for it.
func (a *activity) begin(key uint64, at time.Duration) (t *turn, asked bool, lost int) {
	start := a.turnEnd
	if len(a.asked) > 0 {
		if start == 0 || a.asked[0] < start {
			start = a.asked[0]
		}
		a.asked = slices.Delete(a.asked, 0, 1)
	}
	a.turnEnd = 0
	asked = start != 0
	if !asked {
		start = at
	}
	if len(a.open) == maxOpen {
		a.open = slices.Delete(a.open, 0, 1)
		lost = 1
	}
	a.open = append(a.open, turn{key: key, start: start, created: at})
	return &a.open[len(a.open)-1], asked, lost
}

// find returns the open response of that key, or nil.
func (a *activity) find(key uint64) *turn {
	if i := a.index(key); i >= 0 {
		return &a.open[i]
	}
	return nil
}

// index is where the open response of that key stands, or -1. Where one of the two has no id, the newest is meant.
func (a *activity) index(key uint64) int {
	if a == nil || len(a.open) == 0 {
		return -1
	}
	newest := len(a.open) - 1
	if key == 0 {
		return newest
	}
	if i := slices.IndexFunc(a.open, func(t turn) bool { return t.key == key }); i >= 0 {
		return i
	}
	if a.open[newest].key == 0 {
		return newest
	}
	return -1
}

// end closes the response of that key. known is false when it is not open.
func (a *activity) end(key uint64) (t turn, known bool) {
	i := a.index(key)
	if i < 0 {
		return turn{key: key}, false
	}
	t = a.open[i]
	a.open = slices.Delete(a.open, i, i+1)
	return t, true
}

// unmarked looks at the open responses; without one, any event may begin one.
func (a *activity) unmarked() unmarked {
	if a == nil || len(a.open) == 0 {
		return unmarked{}
	}
	u := unmarked{noText: true, noAudio: true}
	for i := range a.open {
		u.noText = u.noText && a.open[i].text != 0
		u.noAudio = u.noAudio && a.open[i].audio != 0
	}
	return u
}

// refused takes note of an error event: what it refuses is not waited for.
func (a *activity) refused(code string) {
	switch {
	case a == nil:
	case code == "input_audio_buffer_commit_empty":
		a.turnEnd = 0
	case len(a.asked) == 0:
	case code == "conversation_already_has_active_response":
		a.asked = a.asked[:len(a.asked)-1]
	case len(a.open) == 0: // an error event does not say what it answers; most likely the one request there is
		a.asked = slices.Delete(a.asked, 0, 1)
	}
}

// meant returns the open response that a client means: that of the id, or without one the newest.
func (p *progress) meant(id []byte) *turn { return p.active.find(keyOf(id)) }
