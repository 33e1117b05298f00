package relay

import (
	"bytes"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// TestCaseE4ASlowClientThatTalksGetsTheLastWords: the client takes longer for what the upstream said last than the wait
// for its FIN, and goes on talking. To close the socket under it would throw away what the kernel still holds.
func TestCaseE4ASlowClientThatTalksGetsTheLastWords(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
	b := newBench(t, Config{CloseTimeout: 100 * time.Millisecond})
	conn, up := b.upstream()
	s := b.park(Upstream{Conn: conn}, newRecorder())
	ours, cl := b.client()
	small(b, ours, cl.Conn)
	if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, newRecorder()); err != nil {
		t.Fatal(err)
	}
	last := append(up.Frame(true, wiretest.Binary, big), up.Frame(true, wiretest.Text, []byte("A"))...)
	last = append(last, up.Frame(true, wiretest.Close, wiretest.ClosePayload(1000, ""))...)
	up.Send(last)
	up.FIN()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		hello := wiretest.Hex(t, wiretest.Hello)
		for cl.TrySend(hello) == nil {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	cl.ExpectBytes([]byte(response))
	for rest := last; len(rest) > 0; {
		n := min(len(rest), 4<<10)
		cl.ExpectBytes(rest[:n])
		rest = rest[n:]
		time.Sleep(30 * time.Millisecond) // some 500 ms in all: five times CloseTimeout
	}
}

// TestAnUpstreamThatSaysMuchIsKeptForTheClientThatComes, though not for long.
func TestAnUpstreamThatSaysMuchIsKeptForTheClientThatComes(t *testing.T) {
	onEach(t, Config{MaxPrelude: 1000, CloseTimeout: 300 * time.Millisecond}, func(b *bench) {
		conn, up := b.upstream()
		w := newRecorder()
		s := b.park(Upstream{Conn: conn}, w)
		words := bytes.Repeat(up.Frame(true, wiretest.Text, bytes.Repeat([]byte("w"), 10_000)), 100)
		sent := make(chan error, 1)
		go func() { sent <- up.TrySend(words) }()
		w.await(b, "message", func() bool { return len(w.early) > 0 })
		p := b.join(s, up, Client{})
		p.cl.ExpectBytes(words)
		if err := <-sent; err != nil {
			b.Error(err)
		}
		if held := b.Stats().Held; held > 256<<10 {
			b.Errorf("%d bytes held", held)
		}
	})
}

func TestInjectedEventsWaitForTheEndOfAMessage(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.Inject([]byte("at once"))
		p.cl.ExpectText("at once")
		p.up.Send(p.up.Frame(false, wiretest.Text, []byte("be")))
		if f := p.cl.ReadFrame(); f.Fin || string(f.Payload) != "be" {
			b.Errorf("got %+v", f)
		}
		p.Inject([]byte("later"))
		p.up.SendFrame(false, wiretest.Continuation, []byte("tw"))
		p.up.SendFrame(true, wiretest.Continuation, []byte("een"))
		for _, want := range []string{"tw", "een"} {
			if f := p.cl.ReadFrame(); string(f.Payload) != want {
				b.Errorf("got %+v, want %q", f, want)
			}
		}
		p.cl.ExpectText("later")
		p.cl.SendClose(1000, "")
		p.up.ExpectClose(1000)
		p.Inject([]byte("too late"))
		p.up.SendClose(1000, "")
		p.cl.ExpectClose(1000)
	})
}
