package relay

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestRelaysBothWays(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendHex(wiretest.Hello)
		p.up.ExpectHex(wiretest.Hello) // the mask stays
		p.up.SendText("world")
		p.cl.ExpectText("world")
		big := strings.Repeat("0123456789abcdef", 1<<14)
		go p.up.SendText(big)
		p.cl.ExpectText(big)
		go p.cl.SendText(big)
		p.up.ExpectText(big)
		p.cl.SendClose(1000, "bye")
		p.up.ExpectClose(1000)
		p.up.SendClose(1000, "ok")
		if got := p.cl.ExpectClose(1000); got != "ok" {
			b.Errorf("reason %q", got)
		}
		p.cl.ExpectEOF()
		p.up.ExpectEOF()
		p.up.Close()
		p.cl.Close()
		e := p.wantEnd(b, ByClient, 1000)
		if e.Reason != "bye" || e.Err != nil {
			b.Errorf("end %+v", e)
		}
		c := e.Counters
		if c.Frames != [2]uint64{3, 3} || c.Messages != [2]uint64{2, 2} || c.Bytes[Up] != uint64(11+len(big)+14+11) || c.Held != 0 {
			b.Errorf("counters %+v", c)
		}
	})
}

func TestPreludeGoesOutWithTheResponse(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		w := newRecorder()
		created := text("created")
		s := b.park(Upstream{Conn: conn, Prelude: created}, w)
		up.SendText("early")
		w.await(b, "early message", func() bool { return len(w.early) == 1 && w.early[0] == "early" })
		p := b.join(s, up, Client{})
		p.cl.ExpectBytes(created)
		p.cl.ExpectBytes(text("early"))
		p.up.SendText("late")
		p.cl.ExpectText("late")
		if c := p.Counters(); c.Frames[Down] != 3 || c.Messages[Down] != 3 || c.Bytes[Down] != uint64(len(created)+7+6) {
			b.Errorf("counters %+v", c)
		}
	})
}

func TestCaseF1FrameSharesASegmentWithTheHandshake(t *testing.T) {
	whole := wiretest.Hex(t, "81 07 7b 22 6e 22 3a 31 7d")
	onEach(t, Config{}, func(b *bench) {
		for cut := 0; cut <= len(whole); cut++ {
			for _, early := range []bool{false, true} { // the rest comes before or after the client
				conn, up := b.upstream()
				w := newRecorder()
				s := b.park(Upstream{Conn: conn, Pending: bytes.Clone(whole[:cut])}, w)
				if early {
					up.Send(whole[cut:])
					w.await(b, "message", func() bool { return len(w.early) == 1 })
				}
				p := b.join(s, up, Client{})
				if !early {
					up.Send(whole[cut:])
				}
				p.cl.ExpectText(`{"n":1}`)
				up.SendText("next")
				p.cl.ExpectText("next")
				heads := 2
				if early || cut == len(whole) {
					heads = 1
				}
				p.await(b, "heads", func() bool { return len(p.heads) == heads })
				if seen, _ := p.seen(); heads == 2 && seen[0].head != `{"n":1}` {
					b.Errorf("cut at %d: head %q", cut, seen[0].head)
				}
				p.Close(1000, "")
			}
		}
	})
}
