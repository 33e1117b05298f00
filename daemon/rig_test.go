package daemon

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

const testKey = "sk-test-SECRET"

// rig is a whole daemon on loopback in front of a scripted upstream.
type rig struct {
	*Daemon
	t    testing.TB
	up   *wiretest.Upstream
	addr string // data
	log  *syncBuffer
	stop func() // ends the daemon and waits for it
}

// startRig runs a daemon with one route, model "mock", to up. configure may change its configuration.
func startRig(t testing.TB, up *wiretest.Upstream, size int, configure ...func(*Config)) *rig {
	t.Helper()
	log := &syncBuffer{}
	cfg := Config{
		Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: t.TempDir() + "/rtd.sock",
		Log: log, LogLevel: hclog.Trace, Grace: 5 * time.Second, CloseTimeout: time.Second,
	}
	if up != nil { // else configure names another
		cfg.Routes = []Route{{
			Models: []string{"mock"},
			Upstream: Upstream{RootCAs: up.Roots(), Upstream: dialect.Upstream{
				Dialect: "compatible", Name: "up", BaseURL: up.URL(), Credential: testKey, Model: "mock",
			}},
			Pool: pool.Config{Size: size, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond, AuthBackoff: time.Second},
		}}
	}
	for _, c := range configure {
		c(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r := &rig{Daemon: d, t: t, up: up, log: log}
	r.stop = sync.OnceFunc(func() {
		cancel()
		d.Hurry()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if strings.Contains(log.String(), testKey) {
			t.Errorf("the log holds the upstream key:\n%s", log.String())
		}
		if t.Failed() {
			t.Logf("log:\n%s", log.String())
		}
	})
	t.Cleanup(r.stop)
	select {
	case <-d.Ready():
	case err := <-done:
		t.Fatalf("Run ended before it was ready: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("not ready within 30 s")
	}
	r.addr = d.Addrs()[0].String()
	return r
}

// pool is the one pool of the rig.
func (r *rig) pool() *pool.Pool {
	r.t.Helper()
	pools := r.pools.List()
	if len(pools) != 1 {
		r.t.Fatalf("%d pools, want 1", len(pools))
	}
	return pools[0]
}

// await polls cond for at most 10 s.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, p := range r.pools.List() {
				r.t.Logf("%+v", p.Stats())
			}
			r.t.Fatalf("no %s within 30 s", what)
		}
	}
}

// awaitIdle waits until n sessions are warm.
func (r *rig) awaitIdle(n int) {
	r.t.Helper()
	r.await("warm pool", func() bool { return r.pool().Stats().Idle == n })
}

// connect opens a client and returns it with the pool result it was told.
func (r *rig) connect(lines ...string) (*wiretest.Client, string) {
	r.t.Helper()
	c := wiretest.Dial(r.t, r.addr)
	c.SendString(wiretest.HSWith("", lines...))
	h := c.Expect101()
	return c, h.Get("Rtd-Pool")
}

// session opens a client past its session.created.
func (r *rig) session(lines ...string) *wiretest.Client {
	r.t.Helper()
	c, _ := r.connect(lines...)
	c.ExpectText(wiretest.SessionCreated)
	return c
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
