package relay

import (
	"bytes"
	"crypto/tls"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestTLSUpstream(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB: many records
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstreamTLS()
		p := b.join(b.park(Upstream{Conn: conn}, newRecorder()), up, Client{})
		for range 3 {
			p.cl.SendHex(wiretest.Hello)
			p.up.ExpectHex(wiretest.Hello)
			p.up.SendText("world")
			p.cl.ExpectText("world")
		}
		var both sync.WaitGroup
		both.Go(func() { _ = p.cl.TrySend(p.cl.Frame(true, wiretest.Text, []byte(big))) })
		both.Go(func() { _ = p.up.TrySend(p.up.Frame(true, wiretest.Text, []byte(big))) })
		p.cl.ExpectText(big)
		p.up.ExpectText(big)
		both.Wait()
		p.cl.SendClose(1000, "")
		p.up.ExpectClose(1000)
		p.up.SendClose(1000, "")
		p.cl.ExpectClose(1000)
		p.cl.ExpectEOF()
		p.up.ExpectEOF() // close_notify, not a truncation
		p.up.Close()
		p.cl.Close()
		p.wantEnd(b, ByClient, 1000)
	})
}

// TestTLSPlaintextInsideTheConn: what crypto/tls already decrypted or read at the hand-off is not lost, though no event
// will ever tell of it.
func TestTLSPlaintextInsideTheConn(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstreamTLS()
		up.Send(concat([]byte("?"), text("one")))
		up.SendText("two")
		up.SendText("three")
		time.Sleep(20 * time.Millisecond) // all of it is there when the first byte is read
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		w := newRecorder()
		s := b.park(Upstream{Conn: conn}, w)
		w.await(b, "messages", func() bool { return len(w.early) == 3 })
		p := b.join(s, up, Client{})
		for _, want := range []string{"one", "two", "three"} {
			p.cl.ExpectText(want)
		}
		p.up.SendText("four")
		p.cl.ExpectText("four")
	})
}

// TestTLSBackPressure: the plaintext inside the tls.Conn when the client is slow is read when it is not any more, and
// the other way the ciphertext waits.
func TestTLSBackPressure(t *testing.T) {
	const messages = 24
	payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	onEach(t, Config{}, func(b *bench) {
		conn, up := b.upstreamTLS()
		p := b.join(b.park(Upstream{Conn: conn}, newRecorder()), up, Client{})
		for _, ends := range [][2]*wiretest.Peer{{p.up.Peer, p.cl.Peer}, {p.cl.Peer, p.up.Peer}} {
			var sender sync.WaitGroup
			ends[0].Timeout = time.Minute
			sender.Go(func() {
				message := ends[0].Frame(true, wiretest.Binary, payload)
				for range messages {
					if err := ends[0].TrySend(message); err != nil {
						b.Error(err)
					}
				}
			})
			held, before := 0, -1
			for deadline := time.Now().Add(30 * time.Second); (held == 0 || held != before) && time.Now().Before(deadline); {
				time.Sleep(150 * time.Millisecond) // in which no more may come to be held
				held, before = b.Stats().Held, held
			}
			if held == 0 || held > 2*readSizeMax {
				b.Errorf("%d bytes held", held)
			}
			for n := range messages {
				if f := ends[1].ReadFrame(); !bytes.Equal(f.Payload, payload) {
					b.Fatalf("message %d was changed", n)
				}
			}
			sender.Wait()
		}
	})
}

func TestTLSUpstreamLoss(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		for _, lose := range []func(*wiretest.UpstreamConn){
			func(up *wiretest.UpstreamConn) { up.RST() }, func(up *wiretest.UpstreamConn) { up.FIN() },
			func(up *wiretest.UpstreamConn) { _ = up.Conn.(*tls.Conn).NetConn().Close() }, // no close_notify
		} {
			conn, up := b.upstreamTLS()
			p := b.join(b.park(Upstream{Conn: conn}, newRecorder()), up, Client{LossEvent: []byte(lossEvent)})
			p.up.SendText("last")
			p.cl.ExpectText("last")
			lose(p.up)
			p.cl.ExpectText(lossEvent)
			p.cl.ExpectClose(1011)
			p.cl.ExpectEOF()
			p.cl.Close()
			p.wantEnd(b, ByUpstream, 1006)
		}
	})
}

func TestTLSClient(t *testing.T) {
	onEach(t, Config{}, func(b *bench) { // the legs are alike: here the one that is dialled is the client's
		conn, up := b.upstream()
		s := b.park(Upstream{Conn: conn}, newRecorder())
		ours, cl := b.upstreamTLS()
		r := newRecorder()
		if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, r); err != nil {
			b.Fatal(err)
		}
		cl.ExpectBytes([]byte(response))
		up.SendClose(4001, "x")
		cl.ExpectHex("88 03 0f a1 78")
		cl.ExpectEOF()
		cl.Close()
		up.ExpectClose(4001)
		up.Close()
		r.wantEnd(b, ByUpstream, 4001)
	})
}
