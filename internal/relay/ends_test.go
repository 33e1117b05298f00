package relay

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// ends runs short sessions whose peers know every byte in advance.
type ends struct {
	*bench
	hello, clientClose, upstreamText, upstreamClose []byte
}

func newEnds(b *bench) *ends {
	return &ends{
		bench: b, hello: wiretest.Hex(b, wiretest.Hello), clientClose: wiretest.Hex(b, "88 82"+z+"03 e8"),
		upstreamText: text("Hello"), upstreamClose: wiretest.Hex(b, "88 02 03 e8"),
	}
}

// session runs number n: one in ten closes from both ends at once, the others from the client or the upstream in turn;
// one in a hundred is dropped by its client.
func (e *ends) session(n int) {
	conn, up := e.raw()
	s, err := e.Park(Upstream{Conn: conn}, newRecorder())
	if err != nil {
		e.Error(err)
		return
	}
	ours, cl := e.raw()
	r := newRecorder()
	if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, r); err != nil {
		e.Error(err)
		return
	}
	late := time.Now().Add(20 * time.Second)
	_, _ = up.SetDeadline(late), cl.SetDeadline(late)
	defer func() { _, _ = cl.Close(), up.Close() }()
	switch {
	case n%100 == 7:
		e.expect(cl, []byte(response))
		_ = cl.(*net.TCPConn).SetLinger(0)
		_ = cl.Close()
		_, _ = up.Read(make([]byte, 1)) // its Close
	case n%10 == 0:
		e.send(cl, e.hello, e.clientClose)
		e.send(up, e.upstreamText, e.upstreamClose)
		e.expectAll(cl, []byte(response), e.upstreamText, e.upstreamClose)
		e.expectAll(up, e.hello, e.clientClose)
	case n%2 == 0:
		e.send(cl, e.hello, e.clientClose)
		e.expect(up, e.hello, e.clientClose)
		e.send(up, e.upstreamText, e.upstreamClose)
		_ = up.Close()
		e.expectAll(cl, []byte(response), e.upstreamText, e.upstreamClose)
	default:
		e.send(up, e.upstreamText, e.upstreamClose)
		e.expectAll(cl, []byte(response), e.upstreamText, e.upstreamClose)
		e.send(cl, e.clientClose)
		e.expectAll(up, e.clientClose)
	}
	_, _ = cl.Close(), up.Close()
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		e.Errorf("session %d did not end", n)
	}
}

func (e *ends) send(conn net.Conn, parts ...[]byte) {
	if _, err := conn.Write(concat(parts...)); err != nil {
		e.Errorf("send: %v", err)
	}
}

func (e *ends) expect(conn net.Conn, parts ...[]byte) {
	want := concat(parts...)
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		e.Errorf("got % x (%v), want % x", got[:n], err, want)
	}
}

func (e *ends) expectAll(conn net.Conn, parts ...[]byte) {
	want := concat(parts...)
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
		e.Errorf("got % x (%v), want % x", got, err, want)
	}
}

// clean waits until nothing of the test's sessions is left.
func (b *bench) clean(goroutines int) {
	b.Helper()
	late := time.Now().Add(20 * time.Second)
	for {
		s := b.Stats()
		if s.Parked+s.Live+s.Lingering+s.Held+s.Descriptors == 0 && runtime.NumGoroutine() <= goroutines+5 {
			return
		}
		if time.Now().After(late) {
			b.Fatalf("left over: %+v, %d goroutines of %d", s, runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCaseJ3ManyEnds(t *testing.T) {
	sessions, at := 10_000, 200
	if raceEnabled || testing.Short() {
		sessions = 1000
	}
	onEach(t, Config{CloseTimeout: 8 * time.Second}, func(b *bench) {
		echo := newEnds(b)
		goroutines := runtime.NumGoroutine()
		var wg sync.WaitGroup
		gate := make(chan struct{}, at)
		for n := range sessions {
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				echo.session(n)
			})
		}
		wg.Wait()
		b.clean(goroutines)
	})
}

func TestTotalsAreTheSumOfTheSessions(t *testing.T) {
	onEach(t, Config{}, func(b *bench) {
		var sum Counters
		for n := range 3 {
			p := b.pair(Upstream{Prelude: frame(ws.OpText, "prelude")}, Client{})
			p.cl.ExpectText("prelude")
			for range n + 1 {
				p.cl.SendText("up")
				p.up.ExpectText("up")
				p.up.SendText("down")
				p.cl.ExpectText("down")
			}
			p.cl.SendClose(1000, "")
			p.up.ExpectClose(1000)
			p.up.SendClose(1000, "")
			c := p.wantEnd(b, ByClient, 1000).Counters
			for dir := range sum.Frames {
				sum.Frames[dir] += c.Frames[dir]
				sum.Bytes[dir] += c.Bytes[dir]
				sum.Messages[dir] += c.Messages[dir]
			}
		}
		parked, _ := b.upstream()
		b.park(Upstream{Conn: parked, Prelude: frame(ws.OpText, "never passed on")}, newRecorder())
		got := b.Stats()
		if got.Frames != sum.Frames || got.Bytes != sum.Bytes || got.Messages != sum.Messages || sum.Messages != [2]uint64{6, 9} {
			b.Errorf("totals %v %v %v, sessions %v %v %v", got.Frames, got.Bytes, got.Messages, sum.Frames, sum.Bytes, sum.Messages)
		}
	})
}
