package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

const (
	// idleSessions is what a descriptor limit of 20,000 leaves room for: a relayed session takes two.
	idleSessions = 9000
	// idleCeiling is the documented cost of an idle session, in bytes of resident set over the baseline.
	idleCeiling = 2000
	// warmUp is how many sessions come and go before the baseline is taken.
	warmUp = 200
	// chunk is the size of the one message each session sends in the second half.
	chunk = 64 << 10
)

const upgrade = "GET /v1/realtime?model=" + model + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// TestCaseJ1IdleSessionsCostLittle opens as many sessions as the descriptor limit allows, through real processes, and
// asks rtd what they cost: idle from the start, and again after each has sent one large message.
func TestCaseJ1IdleSessionsCostLittle(t *testing.T) {
	needPrograms(t)
	d := startDaemonTo(t, startSim(t), 0)
	for _, c := range openSessions(t, d.listen, warmUp) { // what the first session costs once, such as the program's own pages
		c.Close()
	}
	before := d.settled(t, 0, 6*time.Second)
	conns := openSessions(t, d.listen, idleSessions)
	idle := d.settled(t, idleSessions, 6*time.Second)
	each := float64(idle.GetRssBytes()-before.GetRssBytes()) / idleSessions
	t.Logf("%d idle sessions: %.0f bytes each over %d kB, %d goroutines (%d without sessions)",
		idleSessions, each, before.GetRssBytes()>>10, idle.GetGoroutines(), before.GetGoroutines())
	if each > idleCeiling {
		t.Errorf("%.0f bytes per idle session, want at most %d", each, idleCeiling)
	}
	if more := int(idle.GetGoroutines()) - int(before.GetGoroutines()); more > 10 {
		t.Errorf("%d more goroutines with %d sessions", more, idleSessions)
	}
	for _, c := range conns {
		if err := sendChunk(c); err != nil {
			t.Fatal(err)
		}
	}
	after := d.settled(t, idleSessions, 20*time.Second)
	t.Logf("after a message of %d kB each: %d kB resident, %d kB before", chunk>>10, after.GetRssBytes()>>10, idle.GetRssBytes()>>10)
	if limit := idle.GetRssBytes() + idle.GetRssBytes()/5; after.GetRssBytes() > limit {
		t.Errorf("%d bytes resident after talking, want at most %d", after.GetRssBytes(), limit)
	}
}

// TestAHitIsReadyLongBeforeAMiss compares the two in one run, against an upstream that takes 100 ms to dial.
func TestAHitIsReadyLongBeforeAMiss(t *testing.T) {
	needPrograms(t)
	upstream := startSim(t, "--dial-delay", "100ms")
	ready := func(size int, result rtdv1.PoolResult) time.Duration {
		t.Helper()
		d := startDaemonTo(t, upstream, size)
		for range 100 {
			d.awaitWarm(t, size)
			openSessions(t, d.listen, 1)[0].Close()
		}
		for _, p := range d.stats(t).GetPhases() {
			if p.GetPhase() == rtdv1.Phase_PHASE_READY && p.GetResult() == result {
				return p.GetSummary().GetP50().AsDuration()
			}
		}
		t.Fatalf("no session was a %v", result)
		return 0
	}
	hit, miss := ready(8, rtdv1.PoolResult_POOL_RESULT_HIT), ready(0, rtdv1.PoolResult_POOL_RESULT_MISS)
	t.Logf("ready p50: hit %v, miss %v, ratio %.4f", hit, miss, float64(hit)/float64(miss))
	if hit > miss/4 {
		t.Errorf("ready p50 is %v on a hit and %v on a miss, want at most a quarter", hit, miss)
	}
}

// openSessions opens n sessions and returns their sockets, past the 101 and session.created.
func openSessions(t *testing.T, addr string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	errs := make([]error, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, 64) {
		workers.Go(func() {
			for i := range next {
				conns[i], errs[i] = openSession(addr)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("session %d of %d: %v", i+1, n, err)
		}
	}
	return conns
}

func openSession(addr string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, startTimeout)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(startTimeout))
	if _, err := io.WriteString(conn, upgrade); err != nil {
		return conn, err
	}
	b := make([]byte, 16<<10)
	for n := 0; ; {
		k, err := conn.Read(b[n:])
		if err != nil {
			return conn, fmt.Errorf("after %q: %w", b[:n], err)
		}
		switch n += k; {
		case !strings.HasPrefix("HTTP/1.1 101 ", string(b[:min(n, 13)])):
			return conn, fmt.Errorf("answer %q", b[:n])
		case strings.Contains(string(b[:n]), `"session.created"`):
			conn.SetDeadline(time.Time{})
			return conn, nil
		}
	}
}

// sendChunk sends one masked text message that the upstream takes as silence.
func sendChunk(c net.Conn) error {
	const head, tail = `{"type":"input_audio_buffer.append","audio":"`, `"}`
	payload := head + strings.Repeat("A", chunk-len(head)-len(tail)) + tail
	frame := append([]byte{0x81, 0xff, 0, 0, 0, 0, 0, byte(chunk >> 16), byte(chunk >> 8 & 0xff), byte(chunk & 0xff), 0, 0, 0, 0}, payload...)
	_, err := c.Write(frame)
	return err
}

func (d *daemon) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (d *daemon) stats(t *testing.T) *rtdv1.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := d.client(t).Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// settled waits until rtd holds n sessions and nothing for a slow peer, and returns the leanest of the snapshots of a
// time in which it gives back what was used for a moment.
func (d *daemon) settled(t *testing.T, n uint32, within time.Duration) *rtdv1.Memory {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within+startTimeout)
	defer cancel()
	var least *rtdv1.Memory
	var calm time.Duration
	for s, err := range d.client(t).WatchStats(ctx, time.Second) {
		if err != nil {
			t.Fatal(err)
		}
		m := s.GetMemory()
		if m.GetSessions() != n || s.GetRelay().GetHeldBytes() != 0 {
			calm, least = 0, nil
			continue
		}
		if least == nil || m.GetRssBytes() < least.GetRssBytes() {
			least = m
		}
		if calm += time.Second; calm == within {
			return least
		}
	}
	t.Fatalf("rtd did not settle at %d sessions", n)
	return nil
}

func (d *daemon) awaitWarm(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for s, err := range d.client(t).WatchStats(ctx, 100*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		if int(s.GetPools()[0].GetIdle()) >= n {
			return
		}
	}
}
