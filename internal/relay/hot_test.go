package relay

import (
	"io"
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
)

// quiet is a Handler that costs nothing.
type quiet struct{ capture bool }

func (q quiet) Opened() {}
func (q quiet) Head(Dir, ws.OpCode, []byte, *Tail, time.Duration) (bool, Alike) {
	return q.capture, Alike{}
}
func (q quiet) Message(Dir, []byte, []byte, time.Duration) {}
func (q quiet) Passed(Dir, []Passage)                      {}
func (q quiet) End(End)                                    {}

// duplex makes a live session with raw ends.
func duplex(t testing.TB, config Config, h Handler) (cl, up net.Conn) {
	t.Helper()
	b := newBench(t, config)
	conn, up := b.raw()
	s := b.park(Upstream{Conn: conn}, newRecorder())
	ours, cl := b.raw()
	if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(cl, make([]byte, len(response))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cl.Close(), up.Close() })
	return cl, up
}

// pass sends a frame through and reads it.
func pass(t testing.TB, from, to net.Conn, frame, buf []byte) {
	if _, err := from.Write(frame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, buf[:len(frame)]); err != nil {
		t.Fatal(err)
	}
}

func TestRelayedFramesDoNotAllocate(t *testing.T) {
	cl, up := duplex(t, Config{}, quiet{capture: true})
	down := wire.AppendFrame(nil, wire.FromServer, ws.OpText, make([]byte, 1300))
	upward := wire.AppendFrame(nil, wire.FromClient, ws.OpText, make([]byte, 1300))
	ping := wire.AppendFrame(nil, wire.FromServer, ws.OpPing, []byte("x"))
	buf := make([]byte, 2048)
	round := func() {
		pass(t, up, cl, down, buf)
		pass(t, cl, up, upward, buf)
		pass(t, up, cl, down[:100], buf) // a message in pieces
		pass(t, up, cl, down[100:], buf)
		if _, err := up.Write(ping); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(up, buf[:7]); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if got := testing.AllocsPerRun(200, round); got != 0 {
		t.Errorf("%v allocations for five frames", got)
	}
}

func TestIdleSessionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(session{}); n >= 300 {
		t.Errorf("a session has %d bytes, want less than 300", n)
	}
	t.Logf("session %d, leg %d, parser %d bytes", unsafe.Sizeof(session{}), unsafe.Sizeof(leg{}), unsafe.Sizeof(wire.Parser{}))
}

func BenchmarkRelayFrame(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			cl, up := duplex(b, Config{Goroutines: e.goroutines}, quiet{})
			frame := wire.AppendFrame(nil, wire.FromServer, ws.OpText, make([]byte, 1300))
			buf := make([]byte, 2048)
			b.ReportAllocs()
			for b.Loop() {
				pass(b, up, cl, frame, buf)
			}
		})
	}
}

// BenchmarkFeed is the engine's own share of a frame: no system call.
func BenchmarkFeed(b *testing.B) {
	payload := append([]byte(audio), make([]byte, 1300)...)
	for _, h := range []struct {
		name string
		Handler
	}{{"shown", quiet{}}, {"alike", regular{}}} {
		for _, from := range []wire.Role{wire.FromClient, wire.FromServer} {
			b.Run(h.name+"/"+[]string{"client", "server"}[from], func(b *testing.B) {
				l, i, _ := loose(h.Handler)
				frame := wire.AppendFrame(make([]byte, room), from, ws.OpText, payload)
				b.ReportAllocs()
				for b.Loop() {
					l.input(i, int(from), frame, len(frame)-room)
				}
			})
		}
	}
}

// nowhere is a driver whose sockets take everything.
type nowhere struct{ driver }

func (nowhere) write(_ uint32, _ int, b []byte) (int, error) { return len(b), nil }

func BenchmarkThroughput(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			cl, up := duplex(b, Config{Goroutines: e.goroutines}, quiet{})
			frame := wire.AppendFrame(nil, wire.FromServer, ws.OpBinary, make([]byte, 1<<20))
			go func() {
				for {
					if _, err := up.Write(frame); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, len(frame))
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := io.ReadFull(cl, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAdopt is the hand-off of a parked session: from Adopt to the response at the client.
func BenchmarkAdopt(b *testing.B) {
	bench := newBench(b, Config{})
	prelude := text(`{"type":"session.created"}`)
	buf := make([]byte, len(response)+len(prelude))
	for b.Loop() {
		b.StopTimer()
		conn, up := bench.raw()
		s := bench.park(Upstream{Conn: conn, Prelude: prelude}, newRecorder())
		ours, cl := bench.raw()
		b.StartTimer()
		if err := s.Adopt(Client{Conn: ours, Response: []byte(response)}, quiet{}); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(cl, buf); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_, _ = up.Close(), cl.Close()
		b.StartTimer()
	}
}
