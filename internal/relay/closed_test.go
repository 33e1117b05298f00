package relay

import (
	"errors"
	"testing"
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
