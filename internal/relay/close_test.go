package relay

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
)

const lossEvent = `{"type":"error"}`

func TestCaseE1UpstreamCloseReachesTheClient(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		start := time.Now()
		p.up.SendHex("88 03 0f a1 78")
		if got := p.cl.ExpectClose(4001); got != "x" {
			b.Errorf("reason %q", got)
		}
		if d := time.Since(start); d > 100*time.Millisecond {
			b.Errorf("took %v", d)
		}
		p.cl.SendClose(4001, "x")
		p.up.ExpectClose(4001)
		p.cl.ExpectEOF()
		p.up.ExpectEOF()
		p.cl.Close()
		p.up.Close()
		if e := p.wantEnd(b, ByUpstream, 4001); e.Reason != "x" {
			b.Errorf("end %+v", e)
		}
	})
}

func TestCaseE1UpstreamFinIsALoss(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.FIN()
		p.cl.ExpectText(lossEvent)
		p.cl.ExpectClose(1011)
		p.cl.ExpectEOF()
		p.up.ExpectEOF()
		p.cl.Close()
		if e := p.wantEnd(b, ByUpstream, 1006); !errors.Is(e.Err, io.EOF) {
			b.Errorf("end %+v", e)
		}
	})
}

func TestCaseE1UpstreamResetIsALoss(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.SendText("last")
		p.cl.ExpectText("last")
		p.up.RST()
		p.cl.ExpectText(lossEvent)
		p.cl.ExpectClose(1011)
		p.cl.ExpectEOF()
		p.cl.Close()
		if e := p.wantEnd(b, ByUpstream, 1006); e.Err == nil {
			b.Errorf("end %+v", e)
		}
	})
}

func TestCaseE1SecretsLeaveACloseReason(t *testing.T) {
	redact := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("sk-test-SECRET"), []byte("[redacted]")) }
	onEach(t, Config{Redact: redact}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.up.Send(concat(text("before"), wire.AppendClose(nil, wire.FromServer, 4001, "bad key sk-test-SECRET")))
		p.cl.ExpectText("before")
		if got := p.cl.ExpectClose(4001); got != "bad key [redacted]" {
			b.Errorf("reason %q", got)
		}
		p.cl.Close()
		p.up.Close()
		if e := p.wantEnd(b, ByUpstream, 4001); e.Reason != "bad key [redacted]" {
			b.Errorf("end %+v", e)
		}
	})
}

func TestLossInsideAMessageHasNoEvent(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.SendHex("01 02 68 65")
		p.up.FIN()
		p.cl.ExpectHex("01 02 68 65")
		p.cl.ExpectHex("88 02 03 f3")
		p.cl.ExpectEOF()
	})
}

func TestLossInsideAFrameHasNoClose(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.SendHex("81 05 68 65")
		p.up.FIN()
		p.cl.ExpectHex("81 05 68 65")
		p.cl.ExpectEOF()
	})
}

func TestLossInsideAHeaderHasAnEvent(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{LossEvent: []byte(lossEvent)})
		p.up.SendHex("81 7e 01") // none of it may have left
		p.up.FIN()
		p.cl.ExpectText(lossEvent)
		p.cl.ExpectClose(1011)
		p.cl.ExpectEOF()
	})
}

func TestCaseE3ClientDrop(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		for _, drop := range []func(*wiretest.Client){
			func(c *wiretest.Client) { c.RST() }, func(c *wiretest.Client) { c.FIN() }, func(c *wiretest.Client) { c.Close() },
		} {
			p := b.pair(Upstream{}, Client{})
			drop(p.cl)
			p.up.ExpectClose(1001)
			p.up.FIN()
			p.up.ExpectEOF()
			p.wantEnd(b, ByClient, 1006)
		}
	})
}

func TestCaseE3EmptyCloseStaysEmpty(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendHex("88 80" + wiretest.Z)
		p.up.ExpectHex("88 80" + wiretest.Z)
		p.up.SendHex("88 00")
		p.cl.ExpectHex("88 00")
		p.cl.ExpectEOF()
		p.cl.Close()
		p.up.Close()
		p.wantEnd(b, ByClient, 1005)
	})
}

func TestCloseIsAnsweredForAPeerThatIsGone(t *testing.T) {
	onEach(t, Config{CloseTimeout: 10 * time.Second}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendClose(4000, "done")
		p.up.ExpectClose(4000)
		p.up.FIN() // without an answer
		p.cl.ExpectClose(4000)
		p.cl.ExpectEOF()
		p.cl.Close()
		p.wantEnd(b, ByClient, 4000)

		p = b.pair(Upstream{}, Client{})
		p.up.SendClose(4000, "done")
		p.cl.ExpectClose(4000)
		p.cl.Close() // without an answer
		p.up.ExpectClose(4000)
		p.up.ExpectEOF()
		p.up.Close()
		p.wantEnd(b, ByUpstream, 4000)
	})
}

func TestCloseIsAnsweredForAPeerThatIsSilent(t *testing.T) {
	onEach(t, Config{CloseTimeout: 100 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.cl.SendClose(1000, "")
		p.up.ExpectClose(1000)
		p.cl.ExpectClose(1000) // the upstream stays silent
		p.cl.ExpectEOF()
		p.up.ExpectEOF()
		p.cl.Close()
		p.up.Close()
		p.wantEnd(b, ByClient, 1000)
	})
}

func TestBothCloseAtOnce(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		for range 50 {
			p := b.pair(Upstream{}, Client{})
			var both sync.WaitGroup
			both.Go(func() { p.cl.SendClose(1000, "client") })
			both.Go(func() { p.up.SendClose(1001, "upstream") })
			both.Wait()
			p.cl.ExpectClose(1001)
			p.up.ExpectClose(1000)
			p.cl.ExpectEOF()
			p.up.ExpectEOF()
			p.cl.Close()
			p.up.Close()
			<-p.ended
		}
	})
}

// slowly reads 4 KiB per pause up to the end.
func slowly(r io.Reader, pause time.Duration) ([]byte, error) {
	var all []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		time.Sleep(pause)
	}
}

func TestCaseE4TheLastMessageBeforeACloseArrives(t *testing.T) {
	runs, at := 1000, 50
	if raceEnabled || testing.Short() {
		runs = 100
	}
	payload := strings.Repeat("payload.", 8<<10)
	want := concat(frame(ws.OpBinary, payload), wiretest.Hex(t, "81 01 41 88 02 03 e8"))
	onEach(t, Config{}, func(b *bench) {
		for range runs / at {
			var wg sync.WaitGroup
			for range at {
				p := b.pair(Upstream{}, Client{})
				wg.Go(func() {
					p.up.Send(want)
					p.up.FIN()
					_ = p.cl.Conn.SetReadDeadline(time.Now().Add(10 * time.Second))
					got, err := slowly(p.cl.Conn, 10*time.Millisecond)
					if err != nil || !bytes.Equal(got, want) {
						b.Errorf("got %d bytes of %d: %v", len(got), len(want), err)
					}
					p.cl.Close()
					p.wantEnd(b, ByUpstream, 1000)
				})
			}
			wg.Wait()
		}
	})
}

func TestDataAndFinInOneSegment(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		for range 20 {
			p := b.pair(Upstream{}, Client{})
			setCork(b, p.up.Conn, true)
			p.up.SendText("last words")
			p.up.FIN() // pushes out what is corked, with its FIN
			p.cl.ExpectText("last words")
			p.cl.ExpectClose(1011)
			p.cl.ExpectEOF()
			p.cl.Close()
			p.wantEnd(b, ByUpstream, 1006)
		}
	})
}

func TestSessionCloseWaitsForTheFrame(t *testing.T) {
	onEach(t, Config{CloseTimeout: 3 * time.Second}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.up.SendHex("81 05 68 65")
		p.cl.ExpectHex("81 05 68 65")
		p.Session.Close(1001, "going")
		if got := p.up.ExpectClose(1001); got != "going" { // no frame is under way there
			b.Errorf("reason %q", got)
		}
		p.cl.ExpectSilence(50 * time.Millisecond)
		p.up.SendHex("6c 6c 6f 81 01 78")
		p.cl.ExpectHex("6c 6c 6f") // the frame, and nothing behind it
		if got := p.cl.ExpectClose(1001); got != "going" {
			b.Errorf("reason %q", got)
		}
		p.cl.ExpectEOF()
		p.cl.Close()
		p.up.SendClose(1001, "")
		p.up.ExpectEOF()
		p.up.Close()
		p.wantEnd(b, ByGateway, 1001)
		p.Session.Close(1000, "again")
	})
}

func TestSessionCloseGivesUpOnAFrame(t *testing.T) {
	onEach(t, Config{CloseTimeout: 100 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		p.up.SendHex("81 05 68 65")
		p.cl.ExpectHex("81 05 68 65")
		p.Session.Close(1001, "")
		p.cl.ExpectEOF()
		p.up.ExpectClose(1001)
		p.up.ExpectEOF()
		p.cl.Close()
		p.up.Close()
		p.wantEnd(b, ByGateway, 1001)
	})
}

func TestLingeringNeverResets(t *testing.T) {
	onEach(t, Config{CloseTimeout: 300 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // a client that goes on talking while it is being told to go
			for {
				select {
				case <-stop:
					return
				default:
					_ = p.cl.TrySend(p.cl.Frame(true, wiretest.Text, make([]byte, 100)))
				}
			}
		})
		wg.Go(func() { _, _ = io.Copy(io.Discard, p.up.Conn) })
		p.Session.Close(1001, "")
		p.cl.ExpectClose(1001)
		p.cl.ExpectEOF()
		close(stop)
		p.cl.Close()
		p.up.Close()
		wg.Wait()
		p.wantEnd(b, ByGateway, 1001)
	})
}

func TestEngineCloseEndsEverything(t *testing.T) {
	onEach(t, Config{CloseTimeout: 200 * time.Millisecond}, func(b *bench) {
		p := b.pair(Upstream{}, Client{})
		conn, up := b.upstream()
		w := newRecorder()
		parked := b.park(Upstream{Conn: conn}, w)
		if s := b.Stats(); s.Parked != 1 || s.Live != 1 || s.Descriptors != 3 {
			b.Errorf("stats %+v", s)
		}
		if err := b.Engine.Close(); err != nil {
			b.Fatal(err)
		}
		p.cl.ExpectClose(1001)
		p.cl.ExpectEOF()
		p.up.ExpectClose(1001)
		p.up.ExpectEOF()
		up.ExpectClose(1001)
		up.ExpectEOF()
		p.wantEnd(b, ByGateway, 1001)
		conn, _ = b.upstream()
		if _, err := b.Park(Upstream{Conn: conn}, w); !errors.Is(err, ErrClosed) {
			b.Errorf("park: %v", err)
		}
		ours, _ := b.client()
		if err := parked.Adopt(Client{Conn: ours}, newRecorder()); !errors.Is(err, ErrClosed) {
			b.Errorf("adopt: %v", err)
		}
		select {
		case err := <-w.lost:
			b.Errorf("gone: %v", err)
		default:
		}
	})
}

func TestPanicEndsOneSession(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		other := b.pair(Upstream{}, Client{})
		p := b.pair(Upstream{}, Client{})
		p.set(func() { p.panics = true })
		p.up.SendText("boom")
		p.cl.ExpectText("boom")
		p.cl.ExpectClose(1011)
		p.cl.ExpectEOF()
		p.up.ExpectClose(1001)
		p.up.Close()
		p.cl.Close()
		if e := p.wantEnd(b, ByGateway, 1011); !errors.Is(e.Err, ErrPanic) {
			b.Errorf("end %+v", e)
		}
		other.up.SendText("fine")
		other.cl.ExpectText("fine")
	})
}
