package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// A credential is in clear only while it is used: once a session is open, nothing that lives on holds it, neither the
// session nor, for a client's own, its pool.
func TestNoLiveObjectHoldsACredential(t *testing.T) {
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	base, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	r := startRig(t, wiretest.NewUpstream(t, nil), 2, passing, keyed(), func(c *Config) { c.Routes[0].Upstream.BaseURL = base })

	// The key is put together where it is needed, so that this test does not keep it either.
	key := func() string { return strings.Join([]string{"opaque", "key", "that", "must", "be", "gone"}, "~") }
	var open []net.Conn
	for range 3 {
		for _, credential := range []func() string{key, func() string { return clientKey }} {
			conn := openSession(t, r.addr, credential())
			defer conn.Close()
			open = append(open, conn)
		}
	}
	r.await("sessions", func() bool { return r.sessions.len() == len(open) })
	r.await("warm pools", func() bool {
		idle := 0
		for _, p := range r.pools.List() {
			idle += p.Stats().Idle
		}
		return idle == 4
	})
	time.Sleep(50 * time.Millisecond) // the last dial returns
	heap := liveHeap(t)
	if needle := []byte(key()); bytes.Contains(heap, needle) {
		i := bytes.Index(heap, needle)
		t.Errorf("%d live copies, the first in %q", bytes.Count(heap, needle), heap[max(0, i-300):i+100])
	}
	if !bytes.Contains(heap, []byte(testKey)) {
		t.Error("the gateway's own credential is not there, so the dump shows nothing")
	}
}

func openSession(t *testing.T, addr, key string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, wiretest.HSWith("", "Authorization: Bearer "+key, "X-Request-Id: a", "OpenAI-Organization: org-a")); err != nil {
		t.Fatal(err)
	}
	want := []byte("HTTP/1.1 101 ")
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q, %v", got, err)
	}
	return conn
}

// liveHeap dumps the objects that are reachable.
func liveHeap(t *testing.T) []byte {
	t.Helper()
	for range 3 {
		runtime.GC()
	}
	f, err := os.Create(fmt.Sprintf("%s/heap", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	debug.WriteHeapDump(f.Fd())
	heap, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return heap
}
