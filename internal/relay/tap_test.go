package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestHandlerSeesEachMessageOnce(t *testing.T) {
	letters := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 5000)
	sizes := []int{0, 1, HeadMax - 1, HeadMax, HeadMax + 1, CaptureMax, CaptureMax + 1, 2 * CaptureMax, 3*CaptureMax + 7, 100_000}
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.capture = true })
		n := 0
		check := func(dir Dir, want string) {
			b.Helper()
			n++
			p.await(b, "message", func() bool { return len(p.messages) == n })
			heads, messages := p.seen()
			h, m := heads[n-1], messages[n-1]
			if h.dir != dir || h.op != ws.OpText || h.head != want[:min(len(want), HeadMax)] {
				b.Errorf("%d bytes: head of direction %d, %q", len(want), h.dir, h.head)
			}
			if h.hasTail && h.tail != want[max(0, len(want)-TailMax):] {
				b.Errorf("%d bytes: tail %q", len(want), h.tail)
			}
			last := ""
			if len(want) > CaptureMax {
				last = want[len(want)-CaptureMax:]
			}
			if m.dir != dir || m.first != want[:min(len(want), CaptureMax)] || m.last != last {
				b.Errorf("%d bytes: message of %d and %d bytes", len(want), len(m.first), len(m.last))
			}
		}
		for dir, ends := range [][2]*wiretest.Peer{{p.cl.Peer, p.up.Peer}, {p.up.Peer, p.cl.Peer}} {
			for _, size := range sizes {
				want := letters[:size]
				for _, cut := range []int{0, 1, 3, size / 2} { // 0 is whole, else after so many bytes of the frame
					frame := ends[0].Frame(true, wiretest.Text, []byte(want))
					if cut = min(cut, len(frame)); cut > 0 {
						ends[0].Send(frame[:cut])
						time.Sleep(200 * time.Microsecond)
					}
					ends[0].Send(frame[cut:])
					ends[1].ExpectText(want)
					check(Dir(dir), want)
				}
				half := size / 2
				ends[0].Send(concat(ends[0].Frame(false, wiretest.Text, []byte(want[:half])),
					ends[0].Frame(true, wiretest.Continuation, []byte(want[half:]))))
				ends[1].ExpectText(want)
				check(Dir(dir), want)
			}
		}
	})
}

func TestTailComesWithAWholeMessage(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		payload := strings.Repeat("x", 1000) + "end"
		p.cl.SendText(payload)
		p.up.ExpectText(payload)
		p.up.SendText(payload)
		p.cl.ExpectText(payload)
		p.await(b, "heads", func() bool { return len(p.heads) == 2 })
		heads, messages := p.seen()
		for _, h := range heads {
			if !h.hasTail || h.tail != payload[len(payload)-TailMax:] {
				b.Errorf("tail %q", h.tail)
			}
		}
		if len(messages) != 0 {
			b.Errorf("%d messages that nobody asked for", len(messages))
		}
	})
}

func TestHandlerIsToldWhatWasPassedAndWhen(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendText("up")
		p.up.ExpectText("up")
		p.up.SendText("down")
		p.cl.ExpectText("down")
		var last [2]passed
		for last[Up].Written == 0 || last[Down].Written == 0 { // the portable engine writes later
			for _, got := range p.told(b) {
				last[got.dir] = got
			}
		}
		for _, got := range last {
			if got.heads == 0 || got.Readable <= 0 || got.Written < got.Readable || got.Written > got.Readable+time.Second {
				b.Errorf("passed %+v, want the times of now behind a Head", got)
			}
		}
	})
}

func TestBlindEngineShowsOnlyTheEnd(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		b.Blind(true)
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.capture = true })
		for _, size := range []int{2, HeadMax + 1, 3 * CaptureMax} {
			payload := strings.Repeat("x", size)
			p.cl.SendText(payload)
			p.up.ExpectText(payload)
			p.up.SendText(payload)
			p.cl.ExpectText(payload)
		}
		p.cl.SendClose(1000, "")
		p.up.ExpectClose(1000)
		p.up.SendClose(1000, "")
		end := p.wantEnd(b, ByClient, 1000)
		if heads, messages := p.seen(); len(heads)+len(messages)+len(p.passed) != 0 || end.Counters.Messages != [2]uint64{3, 3} {
			b.Errorf("saw %d heads, %d messages, %d passings; end %+v", len(heads), len(messages), len(p.passed), end.Counters)
		}
	})
}
