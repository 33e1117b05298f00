package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// keyLog is a scripted upstream that knows how many connections are open with which key.
type keyLog struct {
	*wiretest.Upstream
	mu   sync.Mutex
	open map[string]int
}

func newKeyLog(t *testing.T) *keyLog {
	k := &keyLog{open: map[string]int{}}
	k.Upstream = wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Timeout = time.Minute
		head, err := c.TryReadHead()
		if err != nil {
			return // a dial that a reload made needless
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			t.Error(err)
			return
		}
		key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ") + "/" + req.URL.Query().Get("model")
		k.count(key, 1)
		defer k.count(key, -1)
		if c.TrySend([]byte(wiretest.Switching(req)+string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))) == nil {
			c.Echo()
		}
	})
	return k
}

func (k *keyLog) count(key string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[key] += n; k.open[key] == 0 {
		delete(k.open, key)
	}
}

// expect waits until exactly these connections are open.
func (k *keyLog) expect(t *testing.T, within time.Duration, want map[string]int) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		k.mu.Lock()
		got := maps.Clone(k.open)
		k.mu.Unlock()
		if maps.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v the upstream has %v open, want %v", within, got, want)
		}
	}
}

// changed is the configuration in force with a change.
func (r *rig) changed(change func(*Config)) Config {
	cfg := r.current().cfg
	cfg.Routes = slices.Clone(cfg.Routes)
	change(&cfg)
	return cfg
}

// reload must succeed.
func (r *rig) reload(change func(*Config)) Changes {
	r.t.Helper()
	changes, err := r.Reload(r.changed(change))
	if err != nil {
		r.t.Fatal(err)
	}
	return changes
}

func setKey(key string) func(*Config) {
	return func(c *Config) { c.Routes[0].Upstream.Credential = key }
}

const otherKey = "sk-test-OTHER"

func TestCaseA6AReloadReplacesSessionsMadeWithTheOldKey(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 3)
	r.awaitIdle(3)
	active := r.session()
	active.SendText("before")
	active.ExpectText("before")
	up.expect(t, 10*time.Second, map[string]int{testKey + "/mock": 4})

	if changes := r.reload(setKey(otherKey)); changes != (Changes{Added: 1, Removed: 1}) {
		t.Errorf("%+v, want one pool added and one removed", changes)
	}
	up.expect(t, 2*time.Second, map[string]int{testKey + "/mock": 1, otherKey + "/mock": 3})
	active.SendText("after")
	active.ExpectText("after")
	if _, result := r.connect(); result != "hit" {
		t.Errorf("a client after the reload: %s, want hit", result)
	}
	active.SendClose(1000, "")
	active.ExpectClose(1000)
	up.expect(t, 5*time.Second, map[string]int{otherKey + "/mock": 4})
	if strings.Contains(r.log.String(), otherKey) {
		t.Error("the log holds the new key")
	}
}

func TestCaseB4SessionsInUseDuringChangesLeaveNothingBehind(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 5)
	r.awaitIdle(5)
	var clients []*wiretest.Client
	for range 3 {
		clients = append(clients, r.session())
	}
	for i := range 20 {
		r.reload(func(c *Config) {
			c.Routes[0].Upstream.Model = fmt.Sprintf("m%d", i%3)
			c.Routes[0].Pool.Size = 2 + i%4
		})
	}
	for _, c := range clients {
		c.SendText("still here")
		c.ExpectText("still here")
		c.SendClose(1000, "")
		c.ExpectClose(1000)
	}
	up.expect(t, 5*time.Second, map[string]int{testKey + "/m1": 5})
	if n := len(r.pools.List()); n != 1 {
		t.Errorf("%d pools, want 1", n)
	}
}

func TestAReloadKeepsWhatAnOperatorDid(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 2)
	r.awaitIdle(2)
	size := func(want int) {
		t.Helper()
		if s := r.pool().Stats(); s.Size != want {
			t.Errorf("size %d, want %d", s.Size, want)
		}
		r.awaitIdle(want)
	}
	if err := r.pool().Resize(4); err != nil {
		t.Fatal(err)
	}
	r.reload(func(*Config) {})
	size(4)
	r.reload(setKey(otherKey))
	size(4)
	r.reload(func(c *Config) { c.Routes[0].Pool.Size = 3 })
	size(3)
	r.reload(setKey(testKey))
	size(3)

	p := r.pool()
	r.setPaused(p, true, p.Pause)
	r.reload(setKey(otherKey))
	if !r.pool().Stats().Paused {
		t.Error("the pool that took over from a paused one warms")
	}
}

func TestAReloadThatChangesNothingTouchesNoSession(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 3)
	r.awaitIdle(3)
	if changes := r.reload(func(*Config) {}); changes != (Changes{}) {
		t.Errorf("%+v", changes)
	}
	r.reload(func(c *Config) { c.Routes[0].Pool.MaxConnections, c.Routes[0].Pool.BackoffMin = 7, 20*time.Millisecond })
	if s := r.pool().Stats(); s.MaxConnections != 7 || s.Dials != 3 {
		t.Errorf("max_connections %d, %d dials", s.MaxConnections, s.Dials)
	}
}

func TestAReloadRecyclesWhatWasMadeOtherwise(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 2)
	r.awaitIdle(2)
	f := func(what string, change func(*Config)) {
		t.Helper()
		before := up.Dials()
		if changes := r.reload(change); changes != (Changes{Recycled: 1}) {
			t.Errorf("%s: %+v, want one pool recycled", what, changes)
		}
		r.await("recycled pool", func() bool {
			s := r.pool().Stats()
			return s.Idle == 2 && s.Due == 0 && s.Dialing == 0 && up.Dials() == before+2
		})
	}
	f("max_age", func(c *Config) { c.Routes[0].Pool.MaxAge = time.Hour })
	f("ping_interval", func(c *Config) { c.Routes[0].Upstream.PingInterval = time.Minute })
}

func TestAReloadMovesModels(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 1)
	r.awaitIdle(1)
	r.reload(func(c *Config) {
		c.Routes[0].Models = []string{"other", "mock"}
		c.Routes[0].Upstream.Model = ""
	})
	up.expect(t, 2*time.Second, map[string]int{testKey + "/mock": 1, testKey + "/other": 1})
	r.reload(func(c *Config) { c.Routes[0].Models = []string{"other"} })
	up.expect(t, 2*time.Second, map[string]int{testKey + "/other": 1})
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HS)
	if _, body := c.ExpectStatus(404); !strings.Contains(body, "model_not_found") {
		t.Error(body)
	}
}

// A client that waits for a pool that goes with a reload gets its session from the pool that comes.
func TestAClientThatWaitsDuringAReload(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		if strings.HasSuffix(req.Header.Get("Authorization"), testKey) {
			_, _ = c.TryReadFrame() // the old key gets no answer
			return
		}
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		c.Echo()
	})
	r := startRig(t, up, 0)
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HS)
	r.await("waiting client", func() bool { return r.pool().Stats().Waiting == 1 })
	r.reload(setKey(otherKey))
	c.Expect101()
	c.ExpectText(wiretest.SessionCreated)
}

func TestARefusedReloadChangesNothing(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 1)
	r.awaitIdle(1)
	before := r.current()
	f := func(change func(*Config), want ...string) {
		t.Helper()
		_, err := r.Reload(r.changed(change))
		if err == nil {
			t.Errorf("%q: no error", want)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in %q", w, err)
			}
		}
		if r.current() != before {
			t.Errorf("%q: other settings are in force", want)
		}
	}
	f(func(c *Config) { c.Listen, c.Socket = []string{"127.0.0.1:1"}, "/tmp/x" }, "listen: cannot change", "control.socket: cannot change")
	f(func(c *Config) { c.Admin = "127.0.0.1:1" }, "admin: ")
	f(func(c *Config) { c.AdminUIDs = []uint32{1} }, "control.admin_uids: ")
	f(func(c *Config) { c.AdminGIDs = []uint32{1} }, "control.admin_gids: ")
	f(func(c *Config) { c.WriteStall = time.Hour }, "limits.write_stall: ")
	f(func(c *Config) { c.MaxMessage = 1 << 20 }, "limits.max_message: ")
	f(func(c *Config) { c.CloseTimeout = 3 * time.Second }, "shutdown.close_timeout: ")
	f(func(c *Config) { c.Pollers = 7 }, "relay.pollers: ")
	f(func(c *Config) { c.SocketMode, c.SocketGID = 0o666, 7 }, "control.mode: ", "control.group: ")
	f(func(c *Config) { c.LogFormat = LogText }, "log.format: ")
	f(func(c *Config) { c.Routes = nil }, "routes: none given")
	f(func(c *Config) { c.Routes[0].Pool.Size = -1 }, "size")
	f(func(c *Config) { c.Auth = auth.Config{Keys: []auth.Key{{Name: "x"}}} }, "client key")
	if _, err := r.Reload(r.changed(func(c *Config) { c.Admin = "127.0.0.1:1" })); !errors.Is(err, ErrFixed) {
		t.Errorf("%v is not ErrFixed", err)
	}
	if s := r.pool().Stats(); s.Dials != 1 {
		t.Errorf("%d dials, want the one of the start", s.Dials)
	}
	r.session()
}

func TestReloadFromSourceSaysHowItWent(t *testing.T) {
	up := newKeyLog(t)
	next := func() (Config, error) { return Config{}, errors.New("first fault\nsecond fault") }
	r := startRig(t, up.Upstream, 1, func(c *Config) { c.Source = func() (Config, error) { return next() } })
	r.awaitIdle(1)
	if _, err := r.ReloadFromSource(); err == nil || !strings.Contains(err.Error(), "first fault") {
		t.Errorf("%v", err)
	}
	for _, fault := range []string{"first fault", "second fault"} {
		if n := strings.Count(r.log.String(), `"error":"`+fault+`"`); n != 1 {
			t.Errorf("%q has %d lines in the log, want 1:\n%s", fault, n, r.log.String())
		}
	}
	next = func() (Config, error) { return r.changed(func(c *Config) { c.LogLevel = hclog.Warn }), nil }
	if _, err := r.ReloadFromSource(); err != nil {
		t.Error(err)
	}
	if r.Daemon.log.IsInfo() {
		t.Error("the log level did not change")
	}
	r.reload(func(c *Config) { c.Source = nil })
	if _, err := r.ReloadFromSource(); !errors.Is(err, ErrNoSource) {
		t.Errorf("%v", err)
	}
}

func TestPoolsThatComeWithAReloadDuringADrainWait(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 2)
	r.awaitIdle(2)
	r.beginDrain()
	r.reload(setKey(otherKey))
	if s := r.pool().Stats(); !s.Paused || s.Dials != 0 {
		t.Errorf("a new pool warms during a drain: %+v", s)
	}
	if err := r.resume(); err != nil {
		t.Fatal(err)
	}
	up.expect(t, 2*time.Second, map[string]int{otherKey + "/mock": 2})
}

func TestAReloadBeforeReadyOrAtTheEndIsRefused(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 1)
	cfg := r.changed(setKey(otherKey))
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.engine.Close()
	if _, err := d.Reload(cfg); !errors.Is(err, errStarting) {
		t.Errorf("before it runs: %v", err)
	}
	r.stop()
	if _, err := r.Reload(cfg); !errors.Is(err, errStopping) && !errors.Is(err, pool.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}

func TestClientsAndReloadsAtTheSameTime(t *testing.T) {
	up := newKeyLog(t)
	r := startRig(t, up.Upstream, 2)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				c := wiretest.Dial(t, r.addr)
				c.SendString(wiretest.HS)
				if head, err := c.TryReadHead(); err != nil || !strings.Contains(head, " 101 ") {
					t.Errorf("%v: %q", err, head)
				}
				c.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	keys := []string{otherKey, testKey}
	for i := 0; ; i++ {
		select {
		case <-done:
			r.reload(setKey(otherKey))
			up.expect(t, 5*time.Second, map[string]int{otherKey + "/mock": 2})
			return
		default:
			r.reload(setKey(keys[i%2]))
		}
	}
}
