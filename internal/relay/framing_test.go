package relay

import (
	"crypto/sha256"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const z = wiretest.Z

func TestCaseF4PongsDoNotSlipIntoFrames(t *testing.T) {
	const frames, size = 100, 32 << 10
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn}, newRecorder())
		p := &pair{Session: s, recorder: newRecorder(), up: up}
		ours, cl := b.client()
		if err := ours.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil {
			b.Fatal(err)
		}
		p.cl = cl
		if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, p.recorder); err != nil {
			b.Fatal(err)
		}
		p.cl.ExpectBytes([]byte(response))

		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			ping := wiretest.Hex(b, "89 84"+z+"70 69 6e 67")
			for {
				select {
				case <-stop:
					return
				default:
					_ = p.cl.TrySend(ping)
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
		sent, got := sha256.New(), sha256.New()
		wg.Go(func() {
			for n := range frames {
				payload := []byte(strings.Repeat(string(rune('a'+n%26)), size))
				sent.Write(payload)
				_ = up.TrySend(up.Frame(true, wiretest.Binary, payload))
			}
		})
		pongs := 0
		for n := 0; n < frames; {
			f, err := p.cl.TryReadFrame()
			if err != nil {
				b.Errorf("after %d frames: %v", n, err)
				break
			}
			if f.Op == wiretest.Pong {
				if pongs++; string(f.Payload) != "ping" {
					b.Errorf("pong %q", f.Payload)
				}
				continue
			}
			got.Write(f.Payload)
			n++
		}
		close(stop)
		wg.Wait()
		if string(sent.Sum(nil)) != string(got.Sum(nil)) {
			b.Error("the payload was changed")
		}
		if pongs == 0 {
			b.Error("no pong")
		}
	})
}

func TestCaseF6ControlFrameInsideAMessage(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendHex("01 85" + z + "68 65 6c 6c 6f 89 80" + z + "80 85" + z + "77 6f 72 6c 64")
		p.up.ExpectHex("01 85" + z + "68 65 6c 6c 6f 80 85" + z + "77 6f 72 6c 64")
		p.cl.ExpectHex("8a 00")
		p.up.SendHex("01 05 68 65 6c 6c 6f 89 00 80 05 77 6f 72 6c 64")
		p.cl.ExpectHex("01 05 68 65 6c 6c 6f 80 05 77 6f 72 6c 64")
		if f := p.up.ReadFrame(); f.Op != wiretest.Pong {
			b.Errorf("opcode %#x", f.Op)
		}
		p.up.SendHex("8a 00") // a pong nobody asked for
		p.up.SendText("next")
		p.cl.ExpectText("next")
		if c := p.Counters(); c.PingsAnswered != [2]uint64{1, 1} || c.Frames != [2]uint64{2, 3} {
			b.Errorf("counters %+v", c)
		}
		p.await(b, "heads", func() bool { return len(p.heads) == 3 })
		heads, _ := p.seen()
		for n, want := range []string{"helloworld", "helloworld", "next"} {
			if got := heads[n].head; got != want {
				b.Errorf("head %d is %q", n, got)
			}
		}
	})
}

func TestControlFramesDoNotSplitAChunk(t *testing.T) {
	b := newBench(t, Config{})
	p := b.pair(Upstream{}, Client{})
	var sent, want []byte
	for n := range 100 {
		sent = append(sent, frame(ws.OpPing, strings.Repeat("p", n))...)
		sent = append(sent, text(strings.Repeat("x", n))...)
		want = append(want, text(strings.Repeat("x", n))...)
	}
	sent = append(sent, wire.AppendClose(nil, wire.FromServer, 1000, "done")...)
	want = append(want, wire.AppendClose(nil, wire.FromServer, 1000, "done")...)
	p.up.Send(sent)
	p.cl.ExpectBytes(want)
	if f := p.up.ReadFrame(); f.Op != wiretest.Pong || string(f.Payload) != strings.Repeat("p", 99) {
		t.Errorf("got %#x %q", f.Op, f.Payload)
	}
	p.cl.Close()
	p.up.Close()
	pongs := p.wantEnd(t, ByUpstream, 1000).Counters.PingsAnswered[Down]
	pieces := 0
	for _, got := range p.passed { // the end came behind all of them
		if got.dir == Down {
			pieces++
		}
	}
	if pieces == 0 || pieces > 3 || pongs > 3 {
		t.Errorf("written in %d pieces, %d pongs", pieces, pongs)
	}
}

func TestCaseF8UnmaskedFrameIsNotPassedOn(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendHex(wiretest.Hello + "81 02 48 69")
		p.up.ExpectHex(wiretest.Hello)
		p.up.ExpectClose(1001)
		p.cl.ExpectClose(1002)
		p.cl.ExpectEOF()
		p.cl.Close()
		p.up.Close()
		if e := p.wantEnd(b, ByClient, 1002); !errors.Is(e.Err, wire.ErrNotMasked) {
			b.Errorf("end %+v", e)
		}
		for _, n := range []int{1, 2, 3, 5} {
			p := b.pair(Upstream{}, Client{})
			p.cl.Drip(wiretest.Hex(b, wiretest.Hello), n, time.Millisecond)
			p.up.ExpectHex(wiretest.Hello)
		}
	})
}

func TestProtocolErrorsOfTheClient(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		f := func(name, frames string, code int) {
			b.Helper()
			p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
			p.cl.SendHex(frames)
			p.cl.ExpectClose(code)
			p.cl.ExpectEOF()
			p.up.ExpectClose(1001)
			p.cl.Close()
			p.up.Close()
			if e := p.wantEnd(b, ByClient, ws.StatusCode(code)); e.Counters.Bytes[Up] != 0 {
				b.Errorf("%s: %d bytes were passed on", name, e.Counters.Bytes[Up])
			}
		}
		f("F10 RSV1", "c1 81"+z+"61", 1002)
		f("F12 one byte", "88 81"+z+"03", 1002)
		f("F12 1005", "88 82"+z+"03 ed", 1002)
		f("F12 1006", "88 82"+z+"03 ee", 1002)
		f("F12 999", "88 82"+z+"03 e7", 1002)
		f("F12 UTF-8", "88 84"+z+"03 e8 c3 28", 1007)
		f("H1 sign", "82 ff ff ff ff ff ff ff ff fc", 1002)
	})
}

func TestProtocolErrorsOfTheUpstream(t *testing.T) {
	onEach(t, Config{MaxMessage: 1000}, func(b *bench) {
		f := func(frames string, code int) {
			b.Helper()
			p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
			p.up.SendHex(frames)
			p.cl.ExpectClose(1011) // no event: the upstream is not lost
			p.cl.ExpectEOF()
			p.up.ExpectClose(code)
			p.cl.Close()
			p.up.Close()
			p.wantEnd(b, ByUpstream, ws.StatusCode(code))
		}
		f("81 81 00 00 00 00 61", 1002)
		f("88 02 03 ee", 1002)
		f("88 01 03", 1002)
		f("88 04 03 e8 c3 28", 1007)
		f("82 7e 03 e9", 1009)
	})
}

func TestCaseH1LengthsDoNotOverflow(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.cl.SendHex("02 81" + z + "61 80 ff 7f ff ff ff ff ff ff ff" + z)
		p.up.ExpectHex("02 81" + z + "61")
		p.cl.ExpectClose(1009)
		p.cl.ExpectEOF()
		p.up.ExpectClose(1001)
		runtime.ReadMemStats(&after)
		if grew := int64(after.TotalAlloc) - int64(before.TotalAlloc); grew > 1<<20 {
			b.Errorf("allocated %d bytes", grew)
		}
	})
}

func TestAnyCutOfAnyConversation(t *testing.T) {
	server := concat(text("one"), frame(ws.OpPing, "p"), wiretest.Hex(t, "01 01 61"), frame(ws.OpPong, ""), wiretest.Hex(t, "80 01 62"),
		frame(ws.OpBinary, strings.Repeat("x", 300)), wire.AppendClose(nil, wire.FromServer, 1000, "done"))
	want := concat(text("one"), wiretest.Hex(t, "01 01 61 80 01 62"), frame(ws.OpBinary, strings.Repeat("x", 300)),
		wire.AppendClose(nil, wire.FromServer, 1000, "done"))
	step := 1
	if raceEnabled {
		step = 7
	}
	onEach(t, Config{}, func(b *bench) {
		for cut := 1; cut < len(server); cut += step {
			p := b.pair(Upstream{}, Client{})
			p.up.Send(server[:cut])
			p.up.Conn.(*net.TCPConn).SetNoDelay(true)
			time.Sleep(time.Millisecond / 2)
			p.up.Send(server[cut:])
			p.cl.ExpectBytes(want)
			p.cl.ExpectEOF()
			p.cl.Close()
			p.up.Close()
			p.wantEnd(b, ByUpstream, 1000)
			heads, _ := p.seen()
			if len(heads) != 3 || heads[1].head != "ab" || heads[2].head != strings.Repeat("x", HeadMax) {
				b.Errorf("cut at %d: heads %+v", cut, heads)
			}
		}
	})
}
