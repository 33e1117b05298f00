package daemon

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestCaseA1ParkedSessionsThatEndAreNotHandedOut(t *testing.T) {
	f := func(dead int) {
		t.Helper()
		t.Run(fmt.Sprintf("%d dead", dead), func(t *testing.T) {
			end := make(chan struct{})
			var ended sync.WaitGroup
			ended.Add(dead)
			up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
				req := c.ReadRequest()
				c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
				if c.N <= dead {
					<-end
					c.Close() // FIN, no Close frame
					ended.Done()
					return
				}
				c.Echo()
			})
			r := startRig(t, up, 3)
			r.awaitIdle(3)
			close(end)
			ended.Wait()
			c := r.session()
			c.SendHex(wiretest.Hello)
			c.ExpectText("Hello")
			r.awaitIdle(3)
			c.ExpectSilence(50 * time.Millisecond)
		})
	}
	f(2)
	f(3)
}

func TestCaseB1EachUpstreamSessionServesOneClient(t *testing.T) {
	const rounds, parallel = 1000, 20
	var mu sync.Mutex
	seen := map[int]map[string]bool{} // upstream connection → client tags
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		for {
			f, err := c.TryReadFrame()
			if err != nil || f.Op != wiretest.Text {
				return
			}
			mu.Lock()
			if seen[c.N] == nil {
				seen[c.N] = map[string]bool{}
			}
			seen[c.N][string(f.Payload)] = true
			mu.Unlock()
			time.Sleep(rand.N(20 * time.Millisecond)) // a reply that may come after its client has gone
			if c.TrySend(c.Frame(true, wiretest.Text, f.Payload)) != nil {
				return
			}
		}
	})
	r := startRig(t, up, 4)
	var wg sync.WaitGroup
	work := make(chan int)
	for range parallel {
		wg.Go(func() {
			for n := range work {
				tag := fmt.Sprintf("client %d", n)
				c := r.session()
				c.SendText(tag)
				if n%2 == 0 {
					time.Sleep(rand.N(25 * time.Millisecond)) // before, during or after the reply
					c.RST()
					continue
				}
				c.ExpectText(tag)
				c.Close()
			}
		})
	}
	for n := range rounds {
		work <- n
	}
	close(work)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for n, tags := range seen {
		if len(tags) != 1 {
			t.Errorf("upstream connection %d was seen by %v", n, tags)
		}
	}
	if len(seen) < rounds/2 {
		t.Errorf("%d upstream connections saw a client, want at least %d", len(seen), rounds/2)
	}
}

func TestCaseB3OtherHandshakeInputsDoNotMeetWarmSessions(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 2, func(c *Config) { c.Routes[0].Upstream.Organization = "org-1" })
	f := func(want string, lines ...string) {
		t.Helper()
		r.awaitIdle(2)
		c, result := r.connect(lines...)
		defer c.Close()
		c.ExpectText(wiretest.SessionCreated)
		if result != want {
			t.Errorf("%q: Rtd-Pool is %q, want %q", lines, result, want)
		}
	}
	f("hit")
	f("hit", "OpenAI-Organization: org-1")
	f("bypass", "OpenAI-Beta: realtime=v1")
	f("bypass", "OpenAI-Organization: org-2")
	f("bypass", "OpenAI-Project: proj-2")
	f("bypass", "OpenAI-Unheard-Of: 1")
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("/v1/realtime?model=other"))
	c.ExpectStatus(http.StatusNotFound)
}

func TestCaseB3KilledSessionsLeaveNothingBehind(t *testing.T) {
	conns := make(chan *wiretest.UpstreamConn, 200)
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		conns <- c
		c.Echo()
	})
	r := startRig(t, up, 2)
	r.awaitIdle(2)
	before := openFiles(t)
	for range 100 {
		(<-conns).RST()
	}
	r.awaitIdle(2)
	r.expectClean(before)
}

func TestCaseC1FailedWarmDialsBackOff(t *testing.T) {
	f := func(name string, handler func(*wiretest.UpstreamConn)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			var recovered recovery
			up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
				if recovered.yes() {
					wiretest.Ready(c)
					return
				}
				handler(c)
			})
			r := startRig(t, up, 8)
			// Back-off of the rig: at most 100 ms, 1 s after a 401. At the cap, with full jitter, one probe at a time.
			time.Sleep(time.Second) // until the back-off has reached its cap
			before := up.Dials()
			time.Sleep(time.Second) // the time in which dials are counted
			if n := up.Dials() - before; n > 60 {
				t.Errorf("%d dials in the second second", n)
			}
			recovered.now()
			r.awaitIdle(8)
		})
	}
	f("401", func(c *wiretest.UpstreamConn) {
		c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
	})
	f("closed after the request", func(c *wiretest.UpstreamConn) { c.ReadRequest() })
}

func TestCaseC1ClosedPort(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	up.Refuse()
	r := startRig(t, up, 8)
	r.await("a failed dial", func() bool { return r.pool().Stats().LastError != nil })
	before := r.pool().Stats().Dials
	time.Sleep(time.Second) // the time in which dials are counted
	if n := r.pool().Stats().Dials - before; n > 60 {
		t.Errorf("%d dials in a second to a closed port", n)
	}
	up.Listen()
	r.awaitIdle(8)
}

func TestCaseC3RetryAfterIsObeyed(t *testing.T) {
	f := func(value string, least, most time.Duration) {
		t.Helper()
		t.Run(value, func(t *testing.T) {
			first := make(chan time.Time, 1)
			second := make(chan time.Time, 1)
			up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
				if c.N == 1 {
					c.Respond("HTTP/1.1 429 Too Many Requests\r\nRetry-After: " + value + "\r\nContent-Length: 0\r\n\r\n")
					first <- time.Now()
					return
				}
				if c.N == 2 {
					second <- time.Now()
				}
				wiretest.Ready(c)
			})
			r := startRig(t, up, 1)
			begun := <-first
			if least > 0 {
				r.await("back-off", func() bool { return !r.pool().Stats().RefuseTill.IsZero() })
				c := wiretest.Dial(t, r.addr)
				c.SendString(wiretest.HS)
				h, _ := c.ExpectStatus(http.StatusTooManyRequests)
				if h.Get("Retry-After") == "" {
					t.Error("the client's 429 has no Retry-After")
				}
			}
			select {
			case at := <-second:
				if wait := at.Sub(begun); wait < least || wait > most {
					t.Errorf("the second dial came after %v, want %v to %v", wait, least, most)
				}
			case <-time.After(most + 5*time.Second):
				t.Fatal("no second dial")
			}
			r.awaitIdle(1)
		})
	}
	f("2", 1900*time.Millisecond, 2600*time.Millisecond)
	f("abc", 0, 2*time.Second)
	f(time.Now().Add(3*time.Second).UTC().Format(http.TimeFormat), 1900*time.Millisecond, 3600*time.Millisecond)
}

func TestCaseC5NeverMoreThanMaxConnections(t *testing.T) {
	const limit = 10
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		// Close the parked and the taken alike, soon.
		end := time.Now().Add(10*time.Millisecond + rand.N(40*time.Millisecond))
		for {
			if _, err := c.TryReadRaw(end); err != nil {
				return
			}
		}
	})
	r := startRig(t, up, 8, func(c *Config) { c.Routes[0].Pool.MaxConnections = limit })
	var wg sync.WaitGroup
	until := time.Now().Add(4 * time.Second)
	for range 50 {
		wg.Go(func() {
			for time.Now().Before(until) {
				c := wiretest.Dial(t, r.addr)
				c.SendString(wiretest.HS)
				_, _ = c.TryReadFrame() // any answer will do
				c.Close()
			}
		})
	}
	wg.Wait()
	if n := up.MaxOpen(); n > limit {
		t.Errorf("the upstream saw %d connections at once, want at most %d", n, limit)
	}
	if up.Dials() < 100 {
		t.Errorf("only %d dials: the test put no pressure on the limit", up.Dials())
	}
}

func TestCaseC7ReplacementsComeBeforeRetirement(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		time.Sleep(200 * time.Millisecond) // an upstream slow to shake hands
		wiretest.Ready(c)
	})
	r := startRig(t, up, 10, func(c *Config) {
		c.Routes[0].Pool.MaxAge = 3 * time.Second
		c.Routes[0].Pool.AgeJitter = time.Second
	})
	r.awaitIdle(10)
	// The time of two lives, in which the pool is looked at every few milliseconds: no event tells that it never ran low.
	for until := time.Now().Add(7 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if n := r.pool().Stats().Idle; n < 8 {
			t.Fatalf("%d warm, want at least 8 throughout; %+v", n, r.pool().Stats())
		}
	}
	if up.Dials() < 20 {
		t.Errorf("%d dials: nothing was retired", up.Dials())
	}
}

// recovery tells handlers that the upstream works again.
type recovery struct {
	mu sync.Mutex
	ok bool
}

func (r *recovery) now() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ok = true
}

func (r *recovery) yes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ok
}

func TestAnUpstreamThatClosesBehindItsReadyFrameCostsAClientOneDial(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(created(c)) + string(c.Frame(true, wiretest.Close, wiretest.ClosePayload(3000, "invalid_api_key"))))
		_, _ = c.TryReadFrame()
	})
	r := startRig(t, up, 0)
	const clients = 20
	for range clients {
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HS)
		if _, body := c.ExpectStatus(http.StatusBadGateway); !strings.Contains(body, "upstream_auth_failed") {
			t.Errorf("answer %s", body)
		}
	}
	if n := up.Dials(); n != clients {
		t.Errorf("%d dials for %d clients", n, clients)
	}
}

func TestALongSessionCreatedIsServed(t *testing.T) {
	long := strings.Replace(wiretest.SessionCreated, "sess_1", "sess_1"+strings.Repeat("x", 300<<10), 1)
	for _, size := range []int{0, 1} {
		r := startRig(t, wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
			req := c.ReadRequest()
			c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(long))))
			c.Echo()
		}), size)
		r.awaitIdle(size)
		c, _ := r.connect()
		c.ExpectText(long)
		c.SendHex(wiretest.Hello)
		c.ExpectText("Hello")
		r.stop()
	}
}
