package relay

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// TestWatcherHearsWhenTheSocketIsClosed: a pool counts a session until then, and not before its peer could see the end.
func TestWatcherHearsWhenTheSocketIsClosed(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		open := func(w *recorder) {
			b.Helper()
			select {
			case <-w.closed:
				b.Error("closed although the upstream has not ended")
			default:
			}
		}
		conn, up := b.upstream()
		w := newRecorder()
		w.evict = errors.New("an error event")
		b.park(Upstream{Conn: conn}, w)
		up.SendText("error")
		if err := w.wantGone(b); err == nil {
			b.Error("gone without a cause")
		}
		up.ExpectClose(1001)
		open(w)
		up.SendClose(1001, "")
		up.ExpectEOF()
		up.Close()
		<-w.closed

		conn, up = b.upstream()
		w = newRecorder()
		b.park(Upstream{Conn: conn}, w).Close(1000, "")
		up.ExpectClose(1000)
		open(w)
		up.SendClose(1000, "")
		up.ExpectEOF()
		up.Close()
		<-w.closed

		conn, up = b.upstream()
		w = newRecorder()
		s, h := b.park(Upstream{Conn: conn}, w), newRecorder()
		ours, cl := b.client()
		if err := s.Adopt(Client{Conn: ours}, h); err != nil {
			b.Fatal(err)
		}
		cl.Close()
		up.Close()
		<-h.ended
		open(w)
	})
}

// TestAPreludeOutlivesItsMemory: a client that takes little at first makes the engine hold the rest, for which it uses
// again what held the prelude; the handler must still see the message that had begun as it came.
func TestAPreludeOutlivesItsMemory(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		// What stands behind the header looks like the header of a frame that is as long as can be.
		payload := bytes.Repeat([]byte{0x82, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 6000)
		whole := wiretest.Frame{Fin: true, Op: wiretest.Binary, Payload: payload}.Append(nil)
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn, Pending: bytes.Clone(whole[:59_000])}, newRecorder())
		ours, cl := b.client()
		small(b, ours, cl.Conn)
		h := newRecorder()
		if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, h); err != nil {
			b.Fatal(err)
		}
		h.await(b, "message", func() bool { return len(h.heads) == 1 })
		if got := h.heads[0].head; got != string(payload[:HeadMax]) {
			b.Fatalf("the handler saw % x", got[:32])
		}
		up.Send(whole[59_000:])
		cl.ExpectBytes([]byte(response))
		cl.ExpectBytes(whole)
	})
}

// TestAFaultOfTheEngineEndsOneSession: a state that cannot be is as good as any to make the engine itself panic.
func TestAFaultOfTheEngineEndsOneSession(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		other, p := b.pair(Upstream{}, Client{}), b.pair(Upstream{}, Client{})
		p.Inspect(func(time.Duration, Counters) { p.l.at(p.i).leg[upstream].work = 1 << 20 })
		p.up.SendText("boom")
		if e := p.wantEnd(b, ByGateway, 1011); !errors.Is(e.Err, ErrPanic) {
			b.Errorf("end %+v", e)
		}
		other.up.SendText("on")
		other.cl.ExpectText("on")

		conn, up := b.upstream()
		w := newRecorder()
		s := b.park(Upstream{Conn: conn}, w)
		s.Inspect(func(time.Duration, Counters) { s.l.at(s.i).leg[upstream].work = 1 << 20 })
		up.SendText("boom")
		if err := w.wantGone(b); !errors.Is(err, ErrPanic) {
			b.Errorf("gone: %v", err)
		}
		<-w.closed
		other.cl.SendText("on")
		other.up.ExpectText("on")
	})
}
