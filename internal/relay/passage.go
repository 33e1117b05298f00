package relay

import (
	"math"
	"math/bits"
	"time"

	"github.com/rtd-project/rtd/internal/wire"
)

// Passage is what was read at once from one side and passed on to the other.
type Passage struct {
	// Readable is when it was readable, Written when it was written as a whole, both since the engine's start. Written is
	// 0 where it is not yet, for the receiver is slow or a Head is shown first: a passage with the same Readable and nothing
	// Alike tells the rest, later.
	Readable, Written time.Duration
	// Alike is the number of counted messages in it that Head was not shown.
	Alike int
}

// Alike describes messages that Handler.Head need not see one by one.
type Alike struct {
	// Prefix is what their payloads begin with; "" for none. With an Infix they go on with anything that has no quotation mark
	// and ends within HeadMax bytes, and then with the Infix, which begins with one. Few distinct ones are expected in a
	// process.
	Prefix, Infix string
	// Counted says that their number and times matter.
	Counted bool
}

// kind is an Alike as a loop knows it.
type kind struct {
	Alike
	prefix, infix []byte
}

// maxKinds is how many a leg has bits for.
const maxKinds = 16

// kind returns the bit of a, none when there are too many to tell apart.
func (l *loop) kind(a Alike) uint16 {
	for n := range l.kinds {
		if l.kinds[n].Alike == a {
			return 1 << n
		}
	}
	if len(l.kinds) == maxKinds {
		return 0
	}
	l.kinds = append(l.kinds, kind{a, []byte(a.Prefix), []byte(a.Infix)})
	return 1 << (len(l.kinds) - 1)
}

// isAlike reports whether the message that begins with b is one that the handler need not see, and counts it.
func (l *loop) isAlike(g *leg, b []byte) bool {
	for of := g.alike; of != 0; of &= of - 1 {
		k := &l.kinds[bits.TrailingZeros16(of)]
		if k.begins(&g.in, b) {
			if k.Counted {
				l.alike++
			}
			return true
		}
	}
	return false
}

// begins reports whether b, which stands at in, begins as k says.
func (k *kind) begins(in *wire.Parser, b []byte) bool {
	if !in.HasAt(b, 0, k.prefix) {
		return false
	}
	if len(k.infix) == 0 {
		return true
	}
	at := in.IndexAt(b[:min(len(b), HeadMax)], len(k.prefix), '"')
	return at >= 0 && in.HasAt(b, at, k.infix)
}

// atOnce is how many passages the handler is told of at once. With many sessions most of what telling costs is fetching
// memory and code that others drove out of the cache meanwhile.
const atOnce = 16

// notes are the passages of a leg's input that the handler was not told of.
type notes [atOnce]note

// notebook holds the notes of all legs that have some, side by side: nothing has to be fetched to find where one is
// written. Numbers begin at 1; 0 is none.
type notebook struct {
	list []notes
	of   []ref // whose they are; k is -1 for nobody's
	free []uint32
}

func (b *notebook) at(n uint32) *notes { return &b.list[n-1] }

// take returns the number of notes for a leg.
func (b *notebook) take(of ref) (n uint32) {
	if k := len(b.free); k > 0 {
		n, b.free = b.free[k-1], b.free[:k-1]
		b.of[n-1] = of
		return n
	}
	b.list, b.of = append(b.list, notes{}), append(b.of, of)
	return uint32(len(b.list))
}

// give takes notes back, and lets go of the memory when nobody has any.
func (b *notebook) give(n uint32) {
	b.of[n-1].k = -1
	b.free = append(b.free, n)
	if len(b.free) == len(b.list) {
		*b = notebook{}
	}
}

// some returns whose the notes from the number from are, at most n of them, nobody's included.
func (b *notebook) some(from, n int) []ref {
	from = min(from, len(b.of))
	return b.of[from:min(from+n, len(b.of))]
}

// note is a Passage in less room.
type note struct {
	gap   uint32 // ns from the Readable of the one before, which the leg has of the last
	held  uint32 // ns from Readable to Written; unwritten for a Written of 0
	alike uint32
}

const unwritten = math.MaxUint32

// passed notes what leg k sent.
func (l *loop) passed(i uint32, s *session, k int, p Passage) {
	if s.failed || s.state == parked {
		return
	}
	g := &s.leg[k]
	held, long := uint64(unwritten), false
	if p.Written != 0 {
		held = uint64(p.Written - p.Readable)
		long = held >= unwritten
	}
	gap := uint64(p.Readable - g.readable)
	if g.noted == 0 || gap > math.MaxUint32 || long {
		l.tell(i, s, k)
		gap = 0
	}
	if long {
		l.showPassed(i, s, k, append(l.passages[:0], p))
		return
	}
	if g.notes == 0 {
		g.notes = l.notes.take(ref{i, s.gen, k})
	}
	l.notes.at(g.notes)[g.noted%atOnce] = note{uint32(gap), uint32(held), uint32(p.Alike)}
	g.readable = p.Readable
	if g.noted++; g.noted == atOnce {
		l.tell(i, s, k)
	}
}

// tell shows the handler what was noted of leg k.
func (l *loop) tell(i uint32, s *session, k int) {
	g := &s.leg[k]
	if g.noted == 0 {
		return
	}
	list := l.notes.at(g.notes)[:g.noted]
	g.noted = 0
	told := l.passages[:len(list)]
	for n, at := len(list)-1, g.readable; n >= 0; n-- {
		told[n] = Passage{Readable: at, Alike: int(list[n].alike)}
		if list[n].held != unwritten {
			told[n].Written = at + time.Duration(list[n].held)
		}
		at -= time.Duration(list[n].gap)
	}
	l.showPassed(i, s, k, told)
}

// tellInHand is tell, with what is alike in the bytes in hand.
func (l *loop) tellInHand(i uint32, s *session, k int) {
	if l.alike > 0 {
		l.passed(i, s, k, Passage{Readable: l.now, Alike: l.alike})
		l.alike = 0
	}
	l.tell(i, s, k)
}

// tellBoth is tell for a session that is looked at. A handler that panics over it ends the session.
func (l *loop) tellBoth(i uint32, s *session) {
	l.tell(i, s, client)
	l.tell(i, s, upstream)
	if s.failed {
		l.fail(i, s)
		l.settle(i, s)
	}
}

// tellSome tells handlers what was noted, a few of them from the place from in the notebook, and lets go of the notes of
// legs that fell silent. It returns where to go on; 0 is at the end.
func (l *loop) tellSome(from int) (next int) {
	some := l.notes.some(from, lookAtOnce)
	for _, of := range some {
		switch {
		case of.k < 0:
		case l.at(of.i).leg[of.k].noted == 0:
			l.dropNotes(&l.at(of.i).leg[of.k])
		default:
			l.tellBoth(of.i, l.at(of.i))
		}
	}
	if len(some) < lookAtOnce {
		return 0
	}
	return from + lookAtOnce
}

func (l *loop) dropNotes(g *leg) {
	if g.notes != 0 {
		l.notes.give(g.notes)
		g.notes, g.noted = 0, 0
	}
}
