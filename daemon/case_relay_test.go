package daemon

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// expectClean waits until descriptors are back to what they were, give or take 5.
func (r *rig) expectClean(files int) {
	r.t.Helper()
	r.await("clean descriptor table", func() bool { return openFiles(r.t) <= files+5 })
}

// created is what a scripted upstream sends as its first frame.
func created(c *wiretest.UpstreamConn) []byte {
	return c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))
}

// scripted is an upstream that runs script once it has answered 101 and session.created.
func scripted(t *testing.T, script func(c *wiretest.UpstreamConn)) *wiretest.Upstream {
	return wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(created(c)))
		script(c)
	})
}

// untilHello reads the client's first message: the client is joined from then on. A session that no client took ends here.
func untilHello(c *wiretest.UpstreamConn) {
	_ = c.Conn.SetReadDeadline(time.Time{})
	if f, err := c.TryReadFrame(); err != nil || f.Op != wiretest.Text || string(f.Payload) != "Hello" {
		runtime.Goexit()
	}
}

func TestCaseE1UpstreamEnds(t *testing.T) {
	f := func(name string, end func(c *wiretest.UpstreamConn), check func(t *testing.T, c *wiretest.Client)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) { untilHello(c); end(c) }), 1)
			c := r.session()
			c.SendHex(wiretest.Hello)
			check(t, c)
			c.ExpectEOF()
			r.stop()
		})
	}
	f("Close", func(c *wiretest.UpstreamConn) { c.SendHex("88 03 0f a1 78"); c.ExpectClose(4001) }, func(t *testing.T, c *wiretest.Client) {
		if reason := c.ExpectClose(4001); reason != "x" {
			t.Errorf("reason %q, want x", reason)
		}
		c.SendClose(4001, "")
	})
	f("FIN", func(c *wiretest.UpstreamConn) {}, func(t *testing.T, c *wiretest.Client) {
		if _, event := c.ReadMessage(); !strings.Contains(string(event), `"type":"error"`) {
			t.Errorf("event %s", event)
		}
		c.ExpectClose(1011)
	})
	f("RST", func(c *wiretest.UpstreamConn) { c.RST() }, func(t *testing.T, c *wiretest.Client) {
		c.ReadMessage()
		c.ExpectClose(1011)
	})
	f("secret reason", func(c *wiretest.UpstreamConn) { c.SendClose(3000, "bad key "+testKey) }, func(t *testing.T, c *wiretest.Client) {
		if reason := c.ExpectClose(3000); strings.Contains(reason, testKey) || !strings.Contains(reason, "bad key") {
			t.Errorf("reason %q", reason)
		}
	})
}

func TestCaseE3WhatTheUpstreamHearsOfAClientsEnd(t *testing.T) {
	closes := make(chan wiretest.Frame, 1)
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		untilHello(c)
		f, err := c.TryReadFrame()
		if err != nil {
			t.Errorf("no Close: %v", err)
		}
		closes <- f
	}), 0)
	gone := r.session()
	gone.SendHex(wiretest.Hello)
	gone.Close()
	if f := <-closes; f.Op != wiretest.Close || !bytes.HasPrefix(f.Payload, []byte{0x03, 0xe9}) {
		t.Errorf("after a vanished client: opcode %#x % x, want Close 1001", f.Op, f.Payload)
	}
	empty := r.session()
	empty.SendHex(wiretest.Hello)
	empty.SendHex("88 80 " + wiretest.Z)
	if f := <-closes; f.Op != wiretest.Close || len(f.Payload) != 0 {
		t.Errorf("after an empty Close: opcode %#x % x, want an empty Close", f.Op, f.Payload)
	}
}

func TestCaseE4TheLastMessageBeforeACloseArrives(t *testing.T) {
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		untilHello(c)
		b := c.Frame(true, wiretest.Binary, big)
		b = append(b, 0x81, 0x01, 'A', 0x88, 0x02, 0x03, 0xe8)
		c.Send(b)
		c.FIN()
		_, _ = c.TryReadFrame()
	}), 4)
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range 10 {
		wg.Go(func() {
			for range work {
				c := r.session()
				c.SendHex(wiretest.Hello)
				time.Sleep(rand.N(3 * time.Millisecond)) // a slow reader
				if op, got := c.ReadMessage(); op != wiretest.Binary || !bytes.Equal(got, big) {
					t.Errorf("opcode %#x, %d bytes: not what was sent", op, len(got))
				}
				c.ExpectText("A")
				c.ExpectClose(1000)
			}
		})
	}
	for range 300 {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}

func TestDataAndFINInOneSegment(t *testing.T) {
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		untilHello(c)
		c.SendWithFIN(c.Frame(true, wiretest.Text, []byte("last")))
	}), 1)
	c := r.session()
	c.SendHex(wiretest.Hello)
	c.ExpectText("last")
	c.ReadMessage() // the error event
	c.ExpectClose(1011)
	c.ExpectEOF()
}

func TestCaseE9OneFailedDialHurtsNobodyElse(t *testing.T) {
	f := func(name string, answer func(c *wiretest.UpstreamConn)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			bad := wiretest.NewUpstream(t, answer)
			good := wiretest.NewUpstream(t, wiretest.Ready)
			r := startRig(t, good, 0, func(c *Config) {
				route := c.Routes[0]
				route.Models = []string{"bad"}
				route.Upstream.Model = "bad"
				route.Upstream.BaseURL = bad.URL()
				c.Routes = append(c.Routes, route)
			})
			var healthy []*wiretest.Client
			for range 5 {
				healthy = append(healthy, r.session())
			}
			c := wiretest.Dial(t, r.addr)
			c.SendString(wiretest.HSWith("/v1/realtime?model=bad"))
			c.ExpectStatus(http.StatusBadGateway)
			for _, h := range healthy {
				h.SendHex(wiretest.Hello)
				h.ExpectText("Hello")
			}
		})
	}
	f("TLS alert", func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.SendHex("15 03 01 00 02 02 28") })
	f("101 then RST", func(c *wiretest.UpstreamConn) { c.Accept(); c.RST() })
	f("1 MiB header", func(c *wiretest.UpstreamConn) {
		c.ReadRequest()
		_ = c.TrySend([]byte("HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"))
	})
	f("NUL bytes", func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.Send(make([]byte, 512)) })
}

func TestCaseF1AFrameBesideThe101ComesFirstAndOnce(t *testing.T) {
	const extra = `{"n":1}`
	for _, size := range []int{0, 1} {
		up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
			req := c.ReadRequest()
			all := append([]byte(wiretest.Switching(req)), created(c)...)
			all = append(all, c.Frame(true, wiretest.Text, []byte(extra))...)
			cut := len(all) - len(extra) - 4 + (c.N-1)%(len(extra)+4)
			c.Send(all[:cut])
			time.Sleep(2 * time.Millisecond) // so that the two parts are read apart
			c.Send(all[cut:])
			c.Echo()
		})
		r := startRig(t, up, size)
		for range len(extra) + 4 {
			r.awaitIdle(size)
			c := r.session()
			c.ExpectText(extra)
			c.SendHex(wiretest.Hello)
			c.ExpectText("Hello")
			c.Close()
		}
		r.stop()
	}
}

func TestBytesBehindTheClientsRequestAreForwarded(t *testing.T) {
	for _, size := range []int{0, 1} {
		r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), size)
		r.awaitIdle(size)
		c := wiretest.Dial(t, r.addr)
		hello := wiretest.Hex(t, wiretest.Hello)
		c.SendString(wiretest.HS + string(hello[:3]))
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		c.Send(hello[3:])
		c.ExpectText("Hello")
		r.stop()
	}
}

func TestCaseF4PongsNeverCutAFrame(t *testing.T) {
	const frames, size = 200, 32 << 10
	sums := make(chan [32]byte, 1)
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		untilHello(c)
		h := sha256.New()
		p := make([]byte, size)
		for i := range frames {
			p[0], p[1] = byte(i), byte(i>>8)
			h.Write(p)
			c.SendFrame(true, wiretest.Binary, p)
		}
		sums <- [32]byte(h.Sum(nil))
		_, _ = c.TryReadFrame()
	}), 0)
	c := r.session()
	c.SendHex(wiretest.Hello)
	go func() {
		ping := wiretest.Hex(t, "89 84 "+wiretest.Z+" 70 69 6e 67")
		for c.TrySend(bytes.Repeat(ping, 8)) == nil {
			runtime.Gosched()
		}
	}()
	h := sha256.New()
	pongs := 0
	for n := 0; n < frames; {
		switch f := c.ReadFrame(); f.Op {
		case wiretest.Pong:
			if pongs++; string(f.Payload) != "ping" {
				t.Fatalf("pong %q", f.Payload)
			}
		case wiretest.Binary:
			h.Write(f.Payload)
			n++
		default:
			t.Fatalf("opcode %#x", f.Op)
		}
	}
	if got, want := [32]byte(h.Sum(nil)), <-sums; got != want {
		t.Error("the bytes differ from what was sent")
	}
	if pongs == 0 {
		t.Error("no ping was answered")
	}
}

func TestCaseF6AControlFrameInsideAFragmentedMessage(t *testing.T) {
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		c.ExpectText("helloworld")
		c.SendHex("01 05 68 65 6c 6c 6f 89 00 80 05 77 6f 72 6c 64")
		if f := c.ReadFrame(); f.Op != wiretest.Pong {
			t.Errorf("opcode %#x, want a pong", f.Op)
		}
		_, _ = c.TryReadFrame()
	}), 0)
	c := r.session()
	c.SendHex("01 85 " + wiretest.Z + " 68 65 6c 6c 6f 89 80 " + wiretest.Z + " 80 85 " + wiretest.Z + " 77 6f 72 6c 64")
	if f := c.ReadFrame(); f.Op != wiretest.Pong {
		t.Errorf("opcode %#x, want a pong", f.Op)
	}
	c.ExpectText("helloworld")
}

func TestCaseF8F10F12BrokenClientFramesGoNoFurther(t *testing.T) {
	f := func(name, hex string, codes ...int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
				untilHello(c)
				for {
					if f := c.ReadFrame(); f.Op == wiretest.Close {
						if code, _ := f.CloseCode(); code != 1001 {
							t.Errorf("the upstream got Close %d, want 1001", code)
						}
						return
					} else if string(f.Payload) != "a" || f.Fin {
						t.Errorf("the upstream got % x", f.Payload)
					}
				}
			}), 0)
			c := r.session()
			c.SendHex(wiretest.Hello)
			c.SendHex(hex)
			got := c.ReadFrame()
			code, _ := got.CloseCode()
			for _, want := range codes {
				if got.Op == wiretest.Close && code == want {
					c.ExpectEOF()
					return
				}
			}
			t.Errorf("opcode %#x code %d, want Close %v", got.Op, code, codes)
		})
	}
	const z = wiretest.Z
	f("F8 unmasked", "81 02 48 69", 1002)
	f("F10 RSV1", "c1 81 "+z+" 61", 1002)
	f("F12 one byte", "88 81 "+z+" 03", 1002)
	f("F12 1005", "88 82 "+z+" 03 ed", 1002)
	f("F12 1006", "88 82 "+z+" 03 ee", 1002)
	f("F12 999", "88 82 "+z+" 03 e7", 1002)
	f("F12 bad UTF-8", "88 84 "+z+" 03 e8 c3 28", 1002, 1007)
	f("H1 length overflow", "02 81 "+z+" 61 80 ff 7f ff ff ff ff ff ff ff "+z, 1009)
	f("H1 length with the top bit", "82 ff ff ff ff ff ff ff ff fc "+z, 1002, 1009)
	f("reserved opcode", "83 80 "+z, 1002)
	f("long control", "89 fe 00 7e "+z, 1002)
	f("fragmented control", "09 80 "+z, 1002)
	f("continuation of nothing", "80 80 "+z, 1002)
}

func TestCaseF8AHelloInPieces(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	for _, n := range []int{1, 2, 3, 5} {
		c := r.session()
		c.Drip(wiretest.Hex(t, wiretest.Hello), n, time.Millisecond)
		c.ExpectText("Hello")
		c.Close()
	}
}

func TestCaseF10NoExtensionIsEverAgreed(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("", "Sec-WebSocket-Extensions: permessage-deflate"))
	if h := c.Expect101(); h.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("the 101 agrees to %q", h.Get("Sec-WebSocket-Extensions"))
	}
	if head := up.Conn(1).Head(); strings.Contains(head, "Extensions") {
		t.Errorf("the upstream was offered an extension:\n%s", head)
	}
	forced := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Accept("Sec-WebSocket-Extensions: permessage-deflate")
		_, _ = c.TryReadFrame()
	})
	r = startRig(t, forced, 0)
	c = wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HS)
	c.ExpectStatus(http.StatusBadGateway)
}

func TestCaseF12BrokenUpstreamCloses(t *testing.T) {
	for _, hex := range []string{"88 01 03", "88 02 03 ed", "88 02 03 ee", "88 02 03 e7", "88 04 03 e8 c3 28", "81 85 00 00 00 00 68 65 6c 6c 6f"} {
		r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
			untilHello(c)
			c.SendHex(hex)
			if f, err := c.TryReadFrame(); err != nil || f.Op != wiretest.Close {
				t.Errorf("% s: the upstream got opcode %#x, %v", hex, f.Op, err)
			} else if code, _ := f.CloseCode(); code != 1002 && code != 1007 {
				t.Errorf("% s: the upstream got Close %d, want 1002 or 1007", hex, code)
			}
		}), 0)
		c := r.session()
		c.SendHex(wiretest.Hello)
		c.ExpectClose(1011)
		r.stop()
	}
}

func TestCaseH1LyingLengthsCostNoMemory(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 20 {
		c := r.session()
		c.SendHex("02 81 " + wiretest.Z + " 61 80 ff 7f ff ff ff ff ff ff ff " + wiretest.Z)
		c.ExpectClose(1009)
		c.Close()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestCaseH5AnOpenSessionHasNoHTTPTimeout(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) {
		c.HandshakeTimeout, c.ReadyTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	c := r.session()
	c.ExpectSilence(400 * time.Millisecond)
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
}

func TestCaseJ3SessionsEndWithoutATrace(t *testing.T) {
	rounds := 3000
	if raceEnabled {
		rounds = 600
	}
	r := startRig(t, scripted(t, func(c *wiretest.UpstreamConn) {
		f, err := c.TryReadFrame()
		if err != nil || f.Op == wiretest.Close {
			return
		}
		switch string(f.Payload) {
		case "you":
			_ = c.TrySend(c.Frame(true, wiretest.Close, wiretest.ClosePayload(1000, "")))
			_, _ = c.TryReadFrame()
		case "both":
			_ = c.TrySend(c.Frame(true, wiretest.Close, wiretest.ClosePayload(1000, "")))
		default:
			_, _ = c.TryReadFrame()
		}
	}), 8)
	r.awaitIdle(8)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	var wg sync.WaitGroup
	work := make(chan int)
	for range 16 {
		wg.Go(func() {
			for n := range work {
				c := r.session()
				switch n % 10 {
				case 0:
					c.SendText("both")
					_ = c.TrySend(c.Frame(true, wiretest.Close, wiretest.ClosePayload(1000, "")))
				case 1, 2, 3, 4, 5:
					c.SendText("you")
					c.ExpectClose(1000)
				default:
					c.SendText("me")
					c.SendClose(1000, "")
				}
				_, _ = c.TryReadFrame()
				c.Close()
			}
		})
	}
	for n := range rounds {
		work <- n
	}
	close(work)
	wg.Wait()
	r.await("end of every session", func() bool { return r.sessions.len() == 0 })
	r.awaitIdle(8)
	r.expectClean(files)
	r.await("end of every goroutine", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
}

func TestTLSUpstreamsRideTheSamePath(t *testing.T) {
	up := wiretest.NewTLSUpstream(t, wiretest.Ready)
	for _, size := range []int{0, 2} {
		r := startRig(t, up, size)
		r.awaitIdle(size)
		for range 5 {
			c := r.session()
			for range 20 {
				msg := strings.Repeat("x", rand.N(40_000))
				c.SendText(msg)
				c.ExpectText(msg)
			}
			c.SendClose(1000, "OK")
			c.ExpectClose(1000)
		}
		r.stop()
	}
}
