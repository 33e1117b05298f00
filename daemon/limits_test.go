package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// turnedAway expects a 503 with Retry-After, before a request was even sent.
func (r *rig) turnedAway(code string) {
	r.t.Helper()
	if h := r.refused(http.StatusServiceUnavailable, code, ""); h.Get("Retry-After") == "" {
		r.t.Errorf("%s: no Retry-After", code)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 1, func(c *Config) { c.MaxSessions = 2 })
	first := r.session()
	r.session()
	r.awaitIdle(1)
	dials := up.Dials()
	if h := r.refused(http.StatusServiceUnavailable, "at_capacity", wiretest.HS); h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if up.Dials() != dials {
		t.Error("a client without room was dialled for")
	}
	first.SendClose(1000, "")
	first.ExpectClose(1000)
	r.await("room", func() bool { return r.limits.sessions.Load() == 1 })
	r.session()
}

func TestHandshakesAreBounded(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) { c.MaxHandshakes = 3 })
	open := r.session() // is past its handshake and does not count
	r.await("end of a handshake", func() bool { return r.limits.handshakes.Load() == 0 })
	var slow []*wiretest.Client
	for range 3 {
		c := wiretest.Dial(t, r.addr)
		c.SendString("GET /v1/realtime")
		slow = append(slow, c)
	}
	r.await("handshakes", func() bool { return r.limits.handshakes.Load() == 3 })
	for range 5 {
		r.turnedAway("too_many_handshakes")
	}
	open.SendHex(wiretest.Hello)
	open.ExpectText("Hello")
	slow[0].SendString(strings.TrimPrefix(wiretest.HS, "GET /v1/realtime"))
	slow[0].Expect101()
	r.await("room", func() bool { return r.limits.handshakes.Load() == 2 })
	r.session()
	if n := strings.Count(r.log.String(), "turned away"); n != 1 {
		t.Errorf("%d lines for five clients, want 1", n)
	}
}

func TestTheMemoryLimitIsSoft(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	open := r.session()
	cfg := r.current().cfg
	cfg.MemorySoftLimit = 1
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	time.Sleep(memoryAge) // until what was measured before counts no more
	r.turnedAway("out_of_memory")
	open.SendHex(wiretest.Hello)
	open.ExpectText("Hello")
	cfg.MemorySoftLimit = 1 << 50
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	r.session()
}

func TestDescriptorsAreKeptInReserve(t *testing.T) {
	const few = 256 // more than this test binary has open
	restore := limitFiles(t, few)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	restore()
	open := r.session()
	var taken []*os.File
	take := func(upTo uintptr) {
		t.Helper()
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			if taken = append(taken, f); f.Fd() >= upTo {
				return
			}
		}
	}
	take(few - few/8 + 2)
	r.turnedAway("out_of_descriptors")
	take(few)
	wiretest.Dial(t, r.addr).ExpectEOF() // no time for words
	open.SendHex(wiretest.Hello)
	open.ExpectText("Hello")
	for _, f := range taken {
		f.Close()
	}
	r.session()
}

// limitFiles lowers how many descriptors this process may have until restore.
func limitFiles(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
		t.Skip(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}

func TestTheReserveOfDescriptors(t *testing.T) {
	l := newLimits()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fd := descriptor(conn)
	if fd < 3 {
		t.Fatalf("descriptor %d", fd)
	}
	f := func(want bool, files uint64, reserve int) {
		t.Helper()
		l.files = files
		if got := l.descriptorFree(conn, l.reserve(&Config{DescriptorReserve: reserve})); got != want {
			t.Errorf("descriptor %d of %d, %d in reserve: %t", fd, files, reserve, got)
		}
	}
	f(true, uint64(fd)+1000, 64)
	f(false, uint64(fd), 0)
	f(true, uint64(fd)+1, 0)
	f(false, 8*uint64(fd)/7, 1_000_000) // an eighth of the limit at most
	f(true, 8*uint64(fd)/7+8, 1_000_000)
	if piped, _ := net.Pipe(); !l.descriptorFree(piped, 64) {
		t.Error("what is no socket takes no descriptor")
	}
}

func TestOldSessionsEnd(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0, func(c *Config) { c.MaxSessionAge = time.Second })
	begun := time.Now()
	c := r.session()
	for range 3 {
		c.SendHex(wiretest.Hello) // it is not idle
		c.ExpectText("Hello")
	}
	c.ExpectClose(1001)
	if age := time.Since(begun); age < time.Second || age > 10*time.Second {
		t.Errorf("ended after %v", age)
	}
}

func TestIdleSessionsEnd(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, func(c *Config) { c.IdleTimeout = time.Second })
	r.awaitIdle(1)
	time.Sleep(1200 * time.Millisecond) // a session that was warm for long is new to its client
	idle, busy := r.session(), r.session()
	begun := time.Now()
	ended := make(chan time.Duration, 1)
	go func() {
		for {
			f, err := idle.TryReadFrame()
			if err != nil || f.Op == wiretest.Close {
				ended <- time.Since(begun)
				return
			}
		}
	}()
	for time.Since(begun) < 2*time.Second {
		busy.SendHex(wiretest.Hello)
		busy.ExpectText("Hello")
		time.Sleep(20 * time.Millisecond) // the pace of a talking client
	}
	select {
	case quiet := <-ended:
		if quiet < 900*time.Millisecond {
			t.Errorf("ended after %v", quiet)
		}
	case <-time.After(20 * time.Second):
		t.Error("an idle session lives on")
	}
	busy.ExpectClose(1000)
}

// Most chunks are told of in batches, which must not look like silence.
func TestASessionThatSpeaksSlowlyIsNotIdle(t *testing.T) {
	const timeout = 400 * time.Millisecond
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Accept()
		c.SendText(wiretest.SessionCreated)
		_ = c.Conn.SetDeadline(time.Time{})
		_, _ = io.Copy(io.Discard, c.Conn)
	})
	r := startRig(t, up, 1, func(c *Config) { c.IdleTimeout = timeout })
	c := r.session()
	begun := time.Now()
	for time.Since(begun) < 4*timeout {
		c.SendText(`{"type":"input_audio_buffer.append","audio":"AAAA"}`)
		time.Sleep(timeout / 8) // slowly is what it is about
	}
	c.ExpectClose(1000)
	if took := time.Since(begun); took < 5*timeout*9/10 {
		t.Errorf("ended after %v, %v after the last word at most", took, took-4*timeout)
	}
}

// A listener out of descriptors must neither spin nor fill the log.
func TestAcceptRestsWhenItIsOutOfDescriptors(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*acceptPause)
	defer cancel()
	ln := &starved{stop: ctx}
	var clients sync.WaitGroup
	r.accept(ctx, &clients, ln)
	clients.Wait()
	if n := ln.accepts.Load(); n > 20 {
		t.Errorf("%d accepts in %v", n, 10*acceptPause)
	}
	if n := strings.Count(r.log.String(), "cannot accept"); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// starved is a listener that is closed when stop ends, as the daemon's are closed before it.
type starved struct {
	accepts atomic.Int64
	stop    context.Context
}

func (s *starved) Accept() (net.Conn, error) {
	s.accepts.Add(1)
	if s.stop.Err() != nil {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (s *starved) Close() error   { return nil }
func (s *starved) Addr() net.Addr { return &net.TCPAddr{} }

func TestSaid(t *testing.T) {
	var s said
	now := time.Now()
	if !s.due("a", now) || s.due("a", now.Add(shortageInterval-1)) || !s.due("b", now) || !s.due("a", now.Add(shortageInterval)) {
		t.Error("said too often or too rarely")
	}
}

func TestCaseH5AnIdleSessionOutlivesTheHandshakeTimeout(t *testing.T) {
	const timeout = 300 * time.Millisecond
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) { c.HandshakeTimeout, c.ReadyTimeout = timeout, timeout })
	c := r.session()
	time.Sleep(3 * timeout) // idle beyond the timeout, as the case has it
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
}

func TestAClientIsWarnedBeforeItsSessionEnds(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) {
		c.MaxSessionAge, c.SessionWarning = 600*time.Millisecond, 400*time.Millisecond
	})
	c := r.session()
	if _, event := c.ReadMessage(); !strings.Contains(string(event), `"type":"rtd.session.expiring"`) {
		t.Errorf("event %s", event)
	}
	c.ExpectClose(1001) // and no second event before it
}
