package relay

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestCaseE7NoDelayClusters(t *testing.T) {
	rounds := 150
	if raceEnabled || testing.Short() {
		rounds = 50
	}
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		one := func(send, receive *wiretest.Peer) (delays []time.Duration) {
			arrived := make(chan time.Time, rounds)
			go func() {
				for range rounds {
					if _, err := receive.TryReadFrame(); err != nil {
						break
					}
					arrived <- time.Now()
				}
				close(arrived)
			}()
			for range rounds {
				start := time.Now()
				if err := send.TrySend(send.Frame(true, wiretest.Binary, make([]byte, 160))); err != nil {
					b.Error(err)
				}
				at, ok := <-arrived
				if !ok {
					b.Error("a frame was lost")
					return nil
				}
				delays = append(delays, at.Sub(start))
				time.Sleep(20*time.Millisecond - time.Since(start))
			}
			return delays
		}
		var both sync.WaitGroup
		for _, ends := range [][2]*wiretest.Peer{{p.cl.Peer, p.up.Peer}, {p.up.Peer, p.cl.Peer}} {
			both.Go(func() {
				var slow []time.Duration
				for range 3 { // a busy machine delays some rounds, Nagle's algorithm all
					delays := one(ends[0], ends[1])
					slices.Sort(delays)
					if slow = delays[len(delays)*9/10:]; len(slow) == 0 || slow[0] <= 30*time.Millisecond {
						return
					}
				}
				b.Errorf("delays %v", slow)
			})
		}
		both.Wait()
	})
}

func TestCaseH7SlowReaderHoldsBoundedMemory(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		slow, other := b.pair(Upstream{}, Client{}), b.pair(Upstream{}, Client{})
		payload := make([]byte, 256<<10)
		rnd := rand.NewChaCha8([32]byte{})
		_, _ = rnd.Read(payload)
		message := slow.up.Frame(true, wiretest.Binary, payload)
		const messages = 120 // 30 MiB: more than all the kernel's buffers take
		var sender sync.WaitGroup
		sender.Go(func() {
			slow.up.Timeout = time.Minute
			for range messages {
				if err := slow.up.TrySend(message); err != nil {
					b.Error(err)
					return
				}
			}
		})
		for range 20 { // the other sessions do not notice
			other.cl.SendText("to")
			other.up.ExpectText("to")
			other.up.SendText("fro")
			other.cl.ExpectText("fro")
			time.Sleep(10 * time.Millisecond)
			if held := b.Stats().Held; held > 2*readSizeMax {
				b.Errorf("%d bytes held", held)
			}
		}
		slow.cl.SendText("still listened to") // the other direction flows
		slow.up.ExpectText("still listened to")
		for n := range messages {
			if f := slow.cl.ReadFrame(); !bytes.Equal(f.Payload, payload) {
				b.Fatalf("message %d was changed", n)
			}
		}
		sender.Wait()
		for late := time.Now().Add(20 * time.Second); b.Stats().Held != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				b.Fatalf("%d bytes held at the end", b.Stats().Held)
			}
		}
	})
}

// readSizeMax is the most that one chunk brings to either engine.
const readSizeMax = 64<<10 + room

func TestWriteStallEndsTheSession(t *testing.T) {
	onEach(t, Config{WriteStall: 200 * time.Millisecond, CloseTimeout: 100 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{PingInterval: -1, PongTimeout: 50 * time.Millisecond}, Client{})
		var sender sync.WaitGroup
		sender.Go(func() {
			message := p.up.Frame(true, wiretest.Binary, make([]byte, 1<<20))
			for p.up.TrySend(message) == nil {
			}
		})
		p.up.ExpectClose(1001)
		p.up.RST()
		sender.Wait()
		if e := p.wantEnd(b, ByClient, 1006); !errors.Is(e.Err, ErrWriteStall) {
			b.Errorf("end %+v", e)
		}
	})
}

func TestUpstreamStallIsALoss(t *testing.T) {
	onEach(t, Config{WriteStall: 200 * time.Millisecond, CloseTimeout: 100 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		var sender sync.WaitGroup
		sender.Go(func() {
			message := p.cl.Frame(true, wiretest.Binary, make([]byte, 1<<20))
			for p.cl.TrySend(message) == nil {
			}
		})
		p.cl.ExpectText(lossEvent)
		p.cl.ExpectClose(1011)
		p.cl.RST()
		sender.Wait()
		if e := p.wantEnd(b, ByUpstream, 1006); !errors.Is(e.Err, ErrWriteStall) {
			b.Errorf("end %+v", e)
		}
	})
}

// TestWhatAnUpstreamSentBeforeItsEndArrives: the client is slow and goes on talking to an upstream that has closed its
// socket, which answers with a reset while some of what it sent is still unread.
func TestWhatAnUpstreamSentBeforeItsEndArrives(t *testing.T) {
	payload := strings.Repeat("0123456789abcdef", 10<<10) // 160 KiB: more than a chunk, less than the kernel takes in
	want := concat(text(payload), text(lossEvent), wiretest.Hex(t, "88 02 03 f3"))
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn}, newRecorder())
		ours, cl := b.client()
		small(b, ours, cl.Conn)
		r := newRecorder()
		if err := s.Adopt(Client{Conn: ours, LossEvent: []byte(lossEvent)}, r); err != nil {
			b.Fatal(err)
		}
		up.SendText(payload)
		time.Sleep(50 * time.Millisecond) // it is held up
		up.Close()
		for range 20 {
			cl.SendText("are you there?")
			time.Sleep(5 * time.Millisecond) // each in a segment of its own
		}
		_ = cl.Conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, err := io.ReadAll(cl.Conn); err != nil || !bytes.Equal(got, want) {
			b.Errorf("got %d bytes of %d: %v", len(got), len(want), err)
		}
		cl.Close()
		r.wantEnd(b, ByUpstream, 1006)
	})
}

// small makes the kernel hold little between two ends.
func small(b *bench, from, to net.Conn) {
	b.Helper()
	if err := errors.Join(from.(*net.TCPConn).SetWriteBuffer(16<<10), to.(*net.TCPConn).SetReadBuffer(16<<10)); err != nil {
		b.Fatal(err)
	}
}

func TestCaseA5SilenceAndLife(t *testing.T) {
	timing := Upstream{PingInterval: 250 * time.Millisecond, PongTimeout: 500 * time.Millisecond}
	onEach(t, Config{}, func(b *bench) {
		// Parked and live upstreams that send text but no pongs stay.
		conn, up := b.upstream()
		w := newRecorder()
		timing.Conn = conn
		s := b.park(timing, w)
		for range 10 {
			up.SendText("alive")
			time.Sleep(100 * time.Millisecond) // often enough to pass for life
		}
		p := b.join(s, up, Client{LossEvent: []byte(lossEvent)})
		for range 10 {
			up.SendText("alive")
			time.Sleep(100 * time.Millisecond) // often enough to pass for life
		}
		for range 20 {
			p.cl.ExpectText("alive")
		}
		// A silent one is lost.
		start := time.Now()
		p.cl.ExpectText(lossEvent)
		p.cl.ExpectClose(1011)
		if d := time.Since(start); d > 10*time.Second {
			b.Errorf("took %v", d)
		}
		if e := p.wantEnd2(b, up, p.cl); !errors.Is(e.Err, ErrPongTimeout) || e.By != ByUpstream {
			b.Errorf("end %+v", e)
		}

		timing.Conn, _ = b.upstream()
		s = b.park(timing, w)
		if err := w.wantGone(b); !errors.Is(err, ErrPongTimeout) {
			b.Errorf("gone: %v", err)
		}
		ours, _ := b.client()
		if err := s.Adopt(Client{Conn: ours}, newRecorder()); !errors.Is(err, ErrGone) {
			b.Errorf("adopt: %v", err)
		}
	})
}

// wantEnd2 lets both peers go and waits for the end.
func (p *pair) wantEnd2(b *bench, up *wiretest.UpstreamConn, cl *wiretest.Client) End {
	b.Helper()
	up.Close()
	cl.Close()
	select {
	case e := <-p.ended:
		return e
	case <-time.After(5 * time.Second):
		b.Fatal("no end within 5 s")
	}
	return End{}
}

func TestAPingBehindAStalledReaderIsAnswered(t *testing.T) {
	payload := strings.Repeat("0123456789abcdef", 10<<10)
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn}, newRecorder())
		ours, cl := b.client()
		small(b, ours, cl.Conn)
		if err := s.Adopt(Client{Conn: ours}, newRecorder()); err != nil {
			b.Fatal(err)
		}
		up.SendText(payload)
		time.Sleep(50 * time.Millisecond) // it is held up
		for _, ping := range []string{"first", "second"} {
			cl.SendFrame(true, wiretest.Ping, []byte(ping))
		}
		cl.SendText("behind it")
		up.ExpectText("behind it")
		cl.ExpectText(payload)
		if f := cl.ReadFrame(); f.Op != wiretest.Pong || string(f.Payload) != "second" {
			b.Errorf("got %#x %q", f.Op, f.Payload)
		}
	})
}

func TestBackPressureStopsThePongTimer(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		// The timeout is long enough for a busy machine, where the sender may have to wait for a processor.
		p := b.pair(Upstream{PingInterval: 200 * time.Millisecond, PongTimeout: 600 * time.Millisecond}, Client{PingInterval: -1})
		message := p.up.Frame(true, wiretest.Binary, make([]byte, 1<<20))
		const messages = 40
		var sender sync.WaitGroup
		p.up.Timeout = time.Minute
		sender.Go(func() {
			for range messages {
				if err := p.up.TrySend(message); err != nil {
					b.Error(err)
					return
				}
			}
		})
		time.Sleep(1200 * time.Millisecond) // the client does not read; the upstream's frames lie unread
		for range messages {
			if f := p.cl.ReadFrame(); len(f.Payload) != 1<<20 {
				b.Fatalf("frame %#x of %d bytes", f.Op, len(f.Payload))
			}
		}
		sender.Wait()
	})
}

func TestCaseH5IdleSessionsStay(t *testing.T) {
	onEach(t, Config{WriteStall: 100 * time.Millisecond, CloseTimeout: 100 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{PingInterval: 100 * time.Millisecond, PongTimeout: 100 * time.Millisecond},
			Client{PingInterval: 100 * time.Millisecond, PongTimeout: 100 * time.Millisecond})
		until := time.Now().Add(700 * time.Millisecond)
		var pings sync.WaitGroup
		for _, end := range []*wiretest.Peer{p.cl.Peer, p.up.Peer} {
			pings.Go(func() {
				n := 0
				for ; time.Now().Before(until); n++ {
					f, err := end.TryReadFrame()
					if err != nil || f.Op != wiretest.Ping {
						b.Errorf("frame %#x, %v", f.Op, err)
						return
					}
					_ = end.TrySend(end.Frame(true, wiretest.Pong, f.Payload))
				}
				if n < 4 {
					b.Errorf("%d pings", n)
				}
			})
		}
		pings.Wait()
		p.cl.SendHex(wiretest.Hello)
		_, got := p.up.ReadMessage()
		if string(got) != "Hello" {
			b.Errorf("got %q", got)
		}
	})
}

func TestStaleGenerationsAreIgnored(t *testing.T) {
	var table slab
	i := table.take()
	table.at(i).state = live
	gen := table.at(i).gen
	if !table.valid(i, gen) {
		t.Fatal("a session is not valid")
	}
	table.give(i)
	if j := table.take(); j != i {
		t.Fatalf("slot %d, want %d again", j, i)
	}
	table.at(i).state = live
	if table.valid(i, gen) {
		t.Error("the old session is still valid")
	}
	onEach(t, Config{}, func(b *bench) {
		old := b.pair(Upstream{}, Client{})
		old.cl.Close()
		old.up.Close()
		<-old.ended
		p := b.pair(Upstream{}, Client{}) // in the same slot
		if p.i != old.i || p.gen == old.gen {
			b.Fatalf("slot %d after %d", p.i, old.i)
		}
		old.Session.Close(1000, "")
		if c := old.Counters(); c != (Counters{}) {
			b.Errorf("counters %+v", c)
		}
		ours, cl := b.client()
		if err := old.Adopt(Client{Conn: ours, Response: []byte(response)}, newRecorder()); !errors.Is(err, ErrGone) {
			b.Errorf("adopted twice: %v", err)
		}
		if _, err := ours.Write([]byte("x")); err != nil { // it is still ours
			b.Error(err)
		}
		cl.ExpectBytes([]byte("x"))
		p.up.SendText("mine")
		p.cl.ExpectText("mine")
	})
}
