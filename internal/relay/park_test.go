package relay

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestAdoptOnADeadUpstreamLeavesTheClient(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		for name, die := range map[string]func(*wiretest.UpstreamConn){
			"FIN":          func(up *wiretest.UpstreamConn) { up.FIN() },
			"RST":          func(up *wiretest.UpstreamConn) { up.RST() },
			"Close":        func(up *wiretest.UpstreamConn) { up.SendClose(1001, "away") },
			"broken frame": func(up *wiretest.UpstreamConn) { up.SendHex("c1 00") },
		} {
			conn, up := b.upstream()
			w := newRecorder()
			s := b.park(Upstream{Conn: conn, Prelude: text("created")}, w)
			die(up)
			err := w.wantGone(b)
			var closed *CloseError
			switch name {
			case "FIN":
				if !errors.Is(err, io.EOF) {
					b.Errorf("gone: %v", err)
				}
			case "Close":
				if !errors.As(err, &closed) || closed.Code != 1001 || closed.Reason != "away" {
					b.Errorf("gone: %v", err)
				}
				up.ExpectClose(1001)
				up.ExpectEOF()
			case "broken frame":
				if !errors.Is(err, wire.ErrReservedBits) {
					b.Errorf("gone: %v", err)
				}
				up.ExpectClose(1002)
			}
			ours, cl := b.client()
			r := newRecorder()
			if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, r); !errors.Is(err, ErrGone) {
				b.Errorf("%s: adopt: %v", name, err)
			}
			if _, err := ours.Write([]byte("mine")); err != nil {
				b.Error(err)
			}
			cl.ExpectBytes([]byte("mine"))
			if len(r.ended) != 0 || len(w.lost) != 0 {
				b.Errorf("%s: told twice", name)
			}
		}
	})
}

// TestAdoptLooksFirst: what arrived before the adopt is looked at even if its event was not served yet. Only the poller
// can promise that; goroutines are told at their own pace.
func TestAdoptLooksFirst(t *testing.T) {
	b := newBench(t, Config{})
	conn, up := b.raw()
	w := newRecorder()
	s := b.park(Upstream{Conn: conn}, w)
	busy, gate := make(chan struct{}), make(chan struct{})
	s.l.post(func() { close(busy); <-gate })
	<-busy
	if err := up.Close(); err != nil {
		t.Fatal(err)
	}
	ours, _ := b.raw()
	adopted := make(chan error)
	go func() { adopted <- s.Adopt(Client{Conn: ours}, newRecorder()) }()
	for posted := false; !posted; { // next in the queue, before any event
		s.l.queue.mu.Lock()
		posted = len(s.l.queue.items) > 0
		s.l.queue.mu.Unlock()
	}
	close(gate)
	if err := <-adopted; !errors.Is(err, ErrGone) {
		t.Errorf("adopt: %v", err)
	}
	if err := w.wantGone(t); !errors.Is(err, io.EOF) {
		t.Errorf("gone: %v", err)
	}
}

func TestAdoptWithAGoneClientEndsTheSession(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn, Prelude: text("created")}, newRecorder())
		ours, cl := b.client()
		cl.RST()
		r := newRecorder()
		if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, r); err != nil {
			b.Fatal(err)
		}
		up.ExpectClose(1001)
		up.Close()
		r.wantEnd(b, ByClient, 1006)
	})
}

func TestEarlyBytesOfTheClientGoUp(t *testing.T) {
	hello := wiretest.Hex(t, wiretest.Hello)
	onEach(t, Config{}, func(b *bench) {
		for cut := range hello {
			conn, up := b.upstream()
			p := b.join(b.park(Upstream{Conn: conn}, newRecorder()), up, Client{Early: hello[:cut]})
			p.cl.Send(hello[cut:])
			up.ExpectText("Hello")
		}
	})
}

func TestParkedUpstreamIsAnsweredAndPinged(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		b.park(Upstream{Conn: conn, PingInterval: 100 * time.Millisecond}, newRecorder())
		up.SendHex("89 02 68 69")
		if f := up.ReadFrame(); f.Op != wiretest.Pong || string(f.Payload) != "hi" || !f.Masked {
			b.Errorf("got %+v", f)
		}
		for range 3 {
			if f := up.ReadFrame(); f.Op != wiretest.Ping {
				b.Errorf("got %+v", f)
			}
		}
	})
}

func TestEarlyMessagesAreBounded(t *testing.T) {
	onEach(t, Config{MaxPrelude: 1000}, func(b *bench) {
		conn, up := b.upstream()
		w := newRecorder()
		b.park(Upstream{Conn: conn, Prelude: text(strings.Repeat("a", 500))}, w)
		up.SendText(strings.Repeat("b", 100))
		w.await(b, "message", func() bool { return len(w.early) == 1 })
		up.Send(up.Frame(true, wiretest.Text, make([]byte, 100_000)))
		if err := w.wantGone(b); !errors.Is(err, ErrPrelude) {
			b.Errorf("gone: %v", err)
		}
		conn, _ = b.upstream()
		if _, err := b.Park(Upstream{Conn: conn, Prelude: make([]byte, 1001)}, w); !errors.Is(err, ErrPrelude) {
			b.Errorf("park: %v", err)
		}
		conn, _ = b.upstream()
		if _, err := b.Park(Upstream{Conn: conn, Prelude: []byte{0x81, 5, 'x'}}, w); !errors.Is(err, ErrPrelude) {
			b.Errorf("park: %v", err)
		}
	})
}

func TestAPreludeBeyondTheLimitOfMessagesIsRefusedForThat(t *testing.T) {
	onEach(t, Config{MaxMessage: 1000}, func(b *bench) {
		conn, _ := b.upstream()
		_, err := b.Park(Upstream{Conn: conn, Prelude: text(strings.Repeat("a", 1001))}, newRecorder())
		if !errors.Is(err, ErrPrelude) || !errors.Is(err, wire.ErrTooBig) {
			b.Errorf("park: %v", err)
		}
	})
}

func TestWatcherEvicts(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		why := errors.New("an error event")
		conn, up := b.upstream()
		w := newRecorder()
		w.evict = why
		s := b.park(Upstream{Conn: conn}, w)
		up.SendText("error")
		if err := w.wantGone(b); !errors.Is(err, why) {
			b.Errorf("gone: %v", err)
		}
		up.ExpectClose(1001)
		ours, _ := b.client()
		if err := s.Adopt(Client{Conn: ours}, newRecorder()); !errors.Is(err, ErrGone) {
			b.Errorf("adopt: %v", err)
		}

		conn, up = b.upstream()
		w = newRecorder()
		w.panics = true
		b.park(Upstream{Conn: conn}, w)
		up.SendText("boom")
		if err := w.wantGone(b); !errors.Is(err, ErrPanic) {
			b.Errorf("gone: %v", err)
		}
	})
}

func TestCloseOfAParkedSession(t *testing.T) {
	onEach(t, Config{CloseTimeout: 200 * time.Millisecond}, func(b *bench) {
		conn, up := b.upstream()
		w := newRecorder()
		s := b.park(Upstream{Conn: conn}, w)
		s.Close(1001, "drain")
		if got := up.ExpectClose(1001); got != "drain" {
			b.Errorf("reason %q", got)
		}
		up.ExpectEOF() // after the time to answer
		up.Close()
		ours, _ := b.client()
		if err := s.Adopt(Client{Conn: ours}, newRecorder()); !errors.Is(err, ErrGone) {
			b.Errorf("adopt: %v", err)
		}
		if len(w.lost) != 0 {
			b.Error("told that it is gone")
		}
	})
}

func TestParkRefusesOtherConnections(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		a, c := net.Pipe()
		if _, err := b.Park(Upstream{Conn: a}, newRecorder()); !errors.Is(err, ErrConn) {
			b.Errorf("park: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			b.Errorf("left open: %v", err)
		}
	})
}

// openings is a Handler whose Opened looks at the client's end of the connection.
type openings struct {
	*recorder
	look func()
}

func (o openings) Opened() { o.recorder.Opened(); o.look() }

// TestOpenedComesBeforeTheResponse: who reads the response finds done what Opened does, and a panic in it ends that
// session alone.
func TestOpenedComesBeforeTheResponse(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstream()
		ours, cl := b.client()
		r := newRecorder()
		err := b.park(Upstream{Conn: conn}, newRecorder()).Adopt(Client{Conn: ours, Response: []byte(response)}, openings{r, func() {
			if early, _ := cl.TryReadRaw(time.Now().Add(20 * time.Millisecond)); len(early) > 0 {
				b.Errorf("the client has %q already", early)
			}
		}})
		if err != nil {
			b.Fatal(err)
		}
		cl.ExpectBytes([]byte(response))
		up.SendText("on")
		cl.ExpectText("on")
		if r.opened != 1 {
			b.Errorf("opened %d times", r.opened)
		}

		conn, up = b.upstream()
		ours, cl = b.client()
		r = newRecorder()
		r.panics = true
		if err := b.park(Upstream{Conn: conn}, newRecorder()).Adopt(Client{Conn: ours, Response: []byte(response)}, r); err != nil {
			b.Fatal(err)
		}
		cl.ExpectBytes([]byte(response))
		cl.ExpectClose(1011)
		up.ExpectClose(1001)
		up.Close()
		cl.Close()
		if e := <-r.ended; !errors.Is(e.Err, ErrPanic) {
			b.Errorf("end %+v", e)
		}
	})
}
