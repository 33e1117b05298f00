package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const (
	audio = `{"type":"audio","data":"`
	words = `{"type":"words","data":"`
)

// alikeIn is the number of counted messages that were not shown.
func alikeIn(list []passed, dir Dir) (n int) {
	for _, p := range list {
		if p.dir == dir {
			n += p.Alike
		}
	}
	return n
}

func TestWhatIsAlikeIsCountedAndNotShown(t *testing.T) {
	long := audio + strings.Repeat("A", 3*HeadMax) + `"}`
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		for dir, ends := range [][2]*wiretest.Peer{{p.cl.Peer, p.up.Peer}, {p.up.Peer, p.cl.Peer}} {
			dir, shown := Dir(dir), 0
			frame := func(payload string) []byte { return ends[0].Frame(true, wiretest.Text, []byte(payload)) }
			see := func(want string, heads, alike int) {
				b.Helper()
				ends[1].ExpectText(want)
				told := p.told(b)
				all, _ := p.seen()
				shown += heads
				count := 0
				for _, h := range all {
					if h.dir == dir {
						count++
					}
				}
				if n := alikeIn(told, dir); count != shown || n != alike {
					b.Errorf("direction %d, behind %.40s…: %d messages shown and %d counted, want %d and %d", dir, want, count, n, shown, alike)
				}
			}
			p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
			ends[0].Send(frame(long))
			see(long, 1, 0)
			ends[0].Send(frame(long))
			see(long, 0, 1)
			p.set(func() { p.alike = Alike{Prefix: words} })
			ends[0].Send(frame(words + `"}`))
			see(words+`"}`, 1, 1)
			ends[0].Send(concat(frame(long), frame(words+`"}`), frame(long)))
			ends[1].ExpectText(long)
			ends[1].ExpectText(words + `"}`)
			see(long, 0, 3)
			cut := frame(long)
			ends[0].Send(cut[:200]) // its beginning is in hand
			ends[1].ExpectBytes(cut[:200])
			ends[0].Send(cut[200:])
			ends[1].ExpectBytes(cut[200:])
			ends[0].Send(frame(long))
			see(long, 0, 5)
			ends[0].Send(concat(ends[0].Frame(false, wiretest.Text, []byte(audio)), ends[0].Frame(true, wiretest.Continuation, []byte(`"}`))))
			see(audio+`"}`, 0, 6)
			ends[0].Send(frame(audio[:len(audio)-1]))
			see(audio[:len(audio)-1], 1, 6)
			p.set(func() { p.alike = Alike{} })
			ends[0].Send(frame(audio[:10]))
			see(audio[:10], 1, 6)
			ends[0].Send(frame(long)) // nothing is alike any more
			see(long, 1, 6)
		}
	})
}

// An id of its own may stand before what all have.
func TestWhatIsAlikeBehindAnIDIsNotShown(t *testing.T) {
	rest := strings.Repeat("A", 2*HeadMax)
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.alike = Alike{Prefix: `{"id":"`, Infix: `","type":"audio"`, Counted: true} })
		for dir, ends := range [][2]*wiretest.Peer{{p.cl.Peer, p.up.Peer}, {p.up.Peer, p.cl.Peer}} {
			counted, shown := 0, 0
			for _, c := range []struct {
				message string
				counted bool
			}{
				{`{"id":"1","type":"audio"` + rest, false}, // the first is shown
				{`{"id":"1","type":"audio"` + rest, true},
				{`{"id":"","type":"audio"`, true},
				{`{"id":"` + strings.Repeat("x", HeadMax-8) + `","type":"audio"` + rest, true},
				{`{"id":"` + strings.Repeat("x", HeadMax-7) + `","type":"audio"` + rest, false},
				{`{"id":"1\"","type":"audio"` + rest, false},
				{`{"id":"1","type":"audiX"` + rest, false},
				{`{"id":"1` + rest, false},
				{`{"id":"1","type":"aud`, false},
				{`{"id":"`, false},
				{`{"id":"12345","type":"audio"}`, true},
			} {
				ends[0].SendText(c.message)
				ends[1].ExpectText(c.message)
				if c.counted {
					counted++
				} else {
					shown++
				}
				told := p.told(b)
				heads, _ := p.seen()
				heads = slices.DeleteFunc(heads, func(h head) bool { return h.dir != Dir(dir) })
				if n := alikeIn(told, Dir(dir)); n != counted || len(heads) != shown {
					b.Fatalf("direction %d, behind %.60s…: %d counted and %d shown, want %d and %d", dir, c.message, n, len(heads), counted, shown)
				}
			}
		}
	})
}

// The beginning of a message that is too short to tell is gathered, and shown once there is more.
func TestAMessageThatIsCutInItsBeginningIsShown(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
		p.cl.SendText(audio + `"}`)
		p.up.ExpectText(audio + `"}`)
		cut := p.cl.Frame(true, wiretest.Text, []byte(audio+`"}`))
		p.cl.Send(cut[:12])
		p.up.ExpectBytes(cut[:12])
		p.cl.Send(cut[12:])
		p.up.ExpectBytes(cut[12:])
		p.await(b, "a second message", func() bool { return len(p.heads) == 2 })
		if n := alikeIn(p.told(b), Up); n != 0 {
			b.Errorf("%d messages counted, want none beside the two that were shown", n)
		}
	})
}

func TestPassagesComeBeforeWhatIsBehindThem(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
		const n = 2*atOnce + 3
		for range n {
			p.up.SendText(audio + `"}`)
			p.cl.ExpectText(audio + `"}`)
		}
		p.up.SendText("other")
		p.cl.ExpectText("other")
		p.await(b, "the other message", func() bool { return len(p.heads) == 2 })
		p.mu.Lock()
		before := len(p.passed)
		alike, last := alikeIn(p.passed, Down), time.Duration(0)
		for _, one := range p.passed {
			if one.Readable < last || one.Alike > 0 && one.heads != 1 {
				b.Errorf("%+v is not in order", one)
			}
			last = one.Readable
		}
		p.mu.Unlock()
		if alike != n-1 || before < n {
			b.Errorf("%d messages in %d passages were told of before the other message, want %d", alike, before, n-1)
		}
		p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
		for range 2 {
			p.up.SendText(audio + `"}`)
			p.cl.ExpectText(audio + `"}`)
		}
		p.Inspect(func(time.Duration, Counters) {
			if got := alikeIn(p.recorder.passed, Down); got != n-1+2 && got != n-1+1 {
				b.Errorf("%d messages were told of before the look", got)
			}
		})
		p.cl.SendClose(1000, "")
		p.up.ExpectClose(1000)
		p.up.SendClose(1000, "")
		p.wantEnd(b, ByClient, 1000)
	})
}

// Of what is read at once, too, each part is told in its turn.
func TestWhatIsInHandComesBeforeWhatIsBehindIt(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
		for dir, ends := range [][2]*wiretest.Peer{{p.cl.Peer, p.up.Peer}, {p.up.Peer, p.cl.Peer}} {
			frame := func(payload string) []byte { return ends[0].Frame(true, wiretest.Text, []byte(payload)) }
			ends[0].SendText(audio)
			ends[1].ExpectText(audio)
			before := len(p.told(b))
			heads, _ := p.seen()
			ends[0].Send(concat(frame(audio), frame(audio), frame("other"), frame(audio)))
			for _, want := range []string{audio, audio, "other", audio} {
				ends[1].ExpectText(want)
			}
			told := p.told(b)[before:]
			for late := time.Now().Add(5 * time.Second); told[len(told)-1].Written == 0 && time.Now().Before(late); {
				told = p.told(b)[before:] // a goroutine of its own writes where there is no epoll
			}
			first, second := 0, 0
			for _, one := range told {
				if one.heads == len(heads) {
					first += one.Alike
				} else {
					second += one.Alike
				}
			}
			if first != 2 || second != 1 || told[len(told)-1].Written == 0 {
				b.Errorf("direction %d: %d before the other message and %d behind it, want 2 and 1: %+v", dir, first, second, told)
			}
		}
	})
}

func TestASlowReceiverIsToldApart(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.alike = Alike{Prefix: audio, Counted: true} })
		payload := audio + strings.Repeat("A", 1<<13) + `"}`
		full := make(chan struct{})
		go func() {
			for {
				select {
				case <-full:
					p.up.SendText("last")
					return
				default:
					p.up.SendText(payload)
				}
			}
		}()
		var slow time.Duration
		for slow == 0 {
			for _, one := range p.told(b) {
				if one.Written == 0 {
					slow = one.Readable
				}
			}
			time.Sleep(time.Millisecond) // the kernel still takes more
		}
		close(full)
		n := 0
		for ; ; n++ {
			if _, message := p.cl.ReadMessage(); string(message) == "last" {
				break
			}
		}
		told := p.told(b)
		var written time.Duration
		for _, one := range told {
			if one.Readable == slow && one.Written != 0 {
				written = one.Written
			}
		}
		if written <= slow {
			b.Errorf("readable at %v, written at %v", slow, written)
		}
		heads, _ := p.seen() // of the first, the last, and those of which too little was read at once
		if counted := alikeIn(told, Down); counted < n/2 || counted+len(heads) != n+1 {
			b.Errorf("%d of %d messages counted, %d shown", counted, n+1, len(heads))
		}
	})
}

func TestAPanicOverPassagesEndsTheSession(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendText("x")
		p.up.ExpectText("x")
		p.await(b, "message", func() bool { return len(p.heads) == 1 })
		p.told(b)
		p.cl.SendText("y")
		p.up.ExpectText("y")
		p.set(func() { p.panics = true })
		b.Stats() // nothing arrives any more
		p.cl.ExpectClose(1011)
		p.up.ExpectClose(1001)
		if end := p.wantEnd(b, ByGateway, 1011); !errors.Is(end.Err, ErrPanic) {
			b.Errorf("ended with %v", end.Err)
		}
	})
}

// tape is a Handler that keeps what it is told.
type tape struct {
	quiet
	passages []Passage
}

func (t *tape) Passed(_ Dir, passages []Passage) { t.passages = append(t.passages, passages...) }

// loose is a live session without sockets.
func loose(h Handler) (l *loop, i uint32, s *session) {
	l = newLoop(Config{}.withDefaults(), time.Now())
	l.d = nowhere{}
	i = l.take()
	s = l.at(i)
	s.state = live
	*l.handler(i) = h
	return l, i, s
}

func TestPassagesAreToldAsTheyWere(t *testing.T) {
	got := &tape{}
	l, i, s := loose(got)
	want := []Passage{
		{Readable: 5, Written: 9, Alike: 1},
		{Readable: 5, Written: 9},
		{Readable: time.Second, Alike: 70_000},
		{Readable: time.Second, Written: time.Second + 1<<32 - 2},
		{Readable: time.Second, Written: time.Second + 1<<32 - 1}, // as long as what is not written
		{Readable: 2 * time.Second, Written: time.Hour},
		{Readable: time.Hour, Written: time.Hour + 1},
		{Readable: time.Hour + 1<<32 - 1, Written: 2 * time.Hour},
		{Readable: time.Hour + 1<<32 - 1, Written: time.Hour + 1<<32},
		{Readable: time.Minute, Written: time.Minute + 1}, // held back
	}
	for n := range 3 * atOnce {
		want = append(want, Passage{Readable: time.Duration(n) * time.Second, Written: time.Duration(n)*time.Second + 3, Alike: n})
	}
	for _, p := range want {
		l.passed(i, s, upstream, p)
	}
	l.tellSome(0)
	if fmt.Sprint(got.passages) != fmt.Sprint(want) {
		t.Errorf("told %v\nwant %v", got.passages, want)
	}
}

func TestNotesGoWhenALegFallsSilent(t *testing.T) {
	l, i, s := loose(&tape{})
	l.passed(i, s, upstream, Passage{Readable: 1, Written: 2})
	if n := l.counters(s).Working; n != int(unsafe.Sizeof(notes{})) {
		t.Errorf("%d bytes of state, want those of the notes", n)
	}
	l.tellSome(0)
	if s.leg[upstream].notes == 0 {
		t.Error("the notes of a leg that was busy just now are gone")
	}
	l.tellSome(0)
	if s.leg[upstream].notes != 0 || l.counters(s).Working != 0 {
		t.Error("the notes of a silent leg are kept")
	}
}

// All legs are told of what passed, in portions.
func TestStatsTellEverybody(t *testing.T) {
	const legs = 3*lookAtOnce + 5
	l, _, _ := loose(quiet{})
	told := make([]tape, legs)
	for n := range told {
		i := l.take()
		l.at(i).state = live
		*l.handler(i) = &told[n]
		l.passed(i, l.at(i), upstream, Passage{Readable: 1, Written: 2})
	}
	portions, next := 1, l.tellSome(0)
	for ; next > 0; portions++ {
		next = l.tellSome(next)
	}
	for n := range told {
		if len(told[n].passages) != 1 {
			t.Errorf("leg %d was told of %d passages, want 1", n, len(told[n].passages))
		}
	}
	if portions < legs/lookAtOnce {
		t.Errorf("all in %d portions", portions)
	}
}

func TestMoreKindsThanALoopTellsApartAreShown(t *testing.T) {
	l, _, _ := loose(quiet{})
	seen := uint16(0)
	for n := range maxKinds {
		bit := l.kind(Alike{Prefix: fmt.Sprint("kind ", n)})
		if bit == 0 || seen&bit != 0 {
			t.Fatalf("kind %d has bit %b", n, bit)
		}
		seen |= bit
	}
	if a, b := l.kind(Alike{Prefix: "kind 3"}), l.kind(Alike{Prefix: "kind 3", Counted: true}); a != 1<<3 || b != 0 {
		t.Errorf("a known kind has bit %b, one too many %b", a, b)
	}
}

// regular is a Handler to which all messages are alike.
type regular struct{ quiet }

func (regular) Head(Dir, ws.OpCode, []byte, *Tail, time.Duration) (bool, Alike) {
	return false, Alike{Prefix: audio, Counted: true}
}

func TestMessagesAlikeDoNotAllocate(t *testing.T) {
	cl, up := duplex(t, Config{}, regular{})
	payload := []byte(audio + strings.Repeat("A", 1300) + `"}`)
	down, upward := wire.AppendFrame(nil, wire.FromServer, ws.OpText, payload), wire.AppendFrame(nil, wire.FromClient, ws.OpText, payload)
	buf := make([]byte, 2048)
	round := func() {
		pass(t, up, cl, down, buf)
		pass(t, cl, up, upward, buf)
	}
	for range 2 * atOnce {
		round()
	}
	if got := testing.AllocsPerRun(20*atOnce, round); got != 0 {
		t.Errorf("%v allocations for two frames", got)
	}
}
