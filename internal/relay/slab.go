package relay

import (
	"time"

	"github.com/rtd-project/rtd/internal/wire"
)

// The legs of a session. A leg's input is the direction of the same number.
const (
	client   = int(ByClient)
	upstream = int(ByUpstream)
)

// State of a leg.
const (
	fReset     uint16 = 1 << iota // the socket is beyond use, and what it still holds is not to be read yet
	fEOF                          // the input is over
	fDead                         // nothing can be written any more
	fStop                         // the input is thrown away unread
	fCloseIn                      // its Close was read: what follows is thrown away
	fCloseWant                    // a Close is to be written when the stream stands between two frames
	fCloseOut                     // a Close was written: nothing may follow
	fFin                          // a FIN is to be sent when everything is written
	fNotified                     // TLS close_notify was written
	fFinSent                      // the FIN was sent
	fClosed                       // there is no socket
	fPong                         // a pong waits for the end of a frame
	fPing                         // a ping of our own waits for the end of a frame
	fEvent                        // a message of our own waits for the end of a message
	fTap                          // the current message of the input is being gathered for the handler
)

// shut: no byte of the other leg can be written any more.
const shut = fDead | fCloseOut | fFin | fClosed

// States of a session.
const (
	free uint8 = iota
	parked
	live
	ending
)

// leg is one socket of a session. What every chunk needs stands first: of many sessions it is cold.
type leg struct {
	in    wire.Parser // of what it sends
	fd    int32
	io    int32  // the driver's own table
	spill int32  // bytes that wait to be written to it
	work  int32  // bytes of it that are looked at before they are passed on
	notes uint32 // what was passed on of which the handler was not told
	flags uint16
	alike uint16 // the kinds of its messages that the handler need not see, a bit each
	ev    uint16 // what the driver waits for
	noted uint8  // passages in notes

	lastIn   uint32        // in ticks, as the timers
	readable time.Duration // of the last passage in notes

	stallAt, closeAt, pingAt, pongAt, trim uint32 // in ticks; 0 is never
	pingEvery, pongAfter                   uint32

	frames, messages, pings uint32
	bytes                   uint64
}

// session is the state of a session that is always there. It has no pointers, so that the collector skips the slabs.
type session struct {
	leg        [2]leg
	gen        uint32
	due        uint32 // tick at which the wheel looks at it; 0 is never
	prev, next int32  // in its slot of the wheel, 1 + index
	slot       int16
	state      uint8
	dirty      bool  // settle has something to do
	failed     bool  // a handler panicked
	waiting    int32 // while parked
	outcome    int32 // once it ends
	loss       int32 // 1 + index of the loss event
}

const pageSize = 256

// slab numbers sessions. A number is used again with another generation.
type slab struct {
	pages    []*[pageSize]session
	handlers []*[pageSize]Handler
	free     []uint32
	used     int
}

func (t *slab) at(i uint32) *session      { return &t.pages[i/pageSize][i%pageSize] }
func (t *slab) handler(i uint32) *Handler { return &t.handlers[i/pageSize][i%pageSize] }

// valid reports whether i is still the session that had generation gen.
func (t *slab) valid(i, gen uint32) bool { s := t.at(i); return s.gen == gen && s.state != free }

// take returns the number of an empty session.
func (t *slab) take() uint32 {
	if len(t.free) == 0 {
		first := uint32(len(t.pages) * pageSize)
		t.pages = append(t.pages, new([pageSize]session))
		t.handlers = append(t.handlers, new([pageSize]Handler))
		for i := range uint32(pageSize) {
			t.free = append(t.free, first+pageSize-1-i)
		}
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.used++
	return i
}

// give empties a session. Events that still carry its old generation are ignored from here on.
func (t *slab) give(i uint32) {
	s := t.at(i)
	*s = session{gen: s.gen + 1}
	*t.handler(i) = nil
	t.free = append(t.free, i)
	t.used--
}

// each calls f for every session in use; f may give it.
func (t *slab) each(f func(i uint32, s *session)) {
	for n, p := range t.pages {
		for k := range p {
			if p[k].state != free {
				f(uint32(n*pageSize+k), &p[k])
			}
		}
	}
}

// spares bounds how many unused items a table keeps.
const spares = 64

// table holds what a session needs only now and then. Numbers begin at 1; 0 is none.
type table[T any] struct {
	items []*T
	free  []int32
	spare []*T
}

func (t *table[T]) at(n int32) *T { return t.items[n-1] }

// take returns an item, perhaps one that was used before.
func (t *table[T]) take() (int32, *T) {
	var item *T
	if k := len(t.spare); k > 0 {
		item, t.spare = t.spare[k-1], t.spare[:k-1]
	} else {
		item = new(T)
	}
	if k := len(t.free); k > 0 {
		n := t.free[k-1]
		t.free = t.free[:k-1]
		t.items[n-1] = item
		return n, item
	}
	t.items = append(t.items, item)
	return int32(len(t.items)), item
}

// give returns item n, which the caller emptied as far as needed.
func (t *table[T]) give(n int32) {
	if len(t.spare) < spares {
		t.spare = append(t.spare, t.items[n-1])
	}
	t.items[n-1] = nil
	t.free = append(t.free, n)
}
