package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestCaseG1TokenListsAndCase(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	f := func(status int, from, to string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(strings.Replace(wiretest.HS, from, to, 1))
		if status == http.StatusSwitchingProtocols {
			c.Expect101()
			c.ExpectText(wiretest.SessionCreated)
			return
		}
		c.ExpectStatus(status)
		c.ExpectEOF()
	}
	f(101, "Connection: Upgrade", "Connection: keep-alive, Upgrade")
	f(101, "Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade")
	f(101, "Upgrade: websocket", "Upgrade: WebSocket")
	f(101, "/v1/realtime", "//v1/realtime")
	f(101, "/v1/realtime", "/realtime")
	f(400, "Connection: Upgrade", "Connection: notupgrade")
	f(426, "Upgrade: websocket\r\n", "")
	f(400, "?model=mock", "")
	f(404, "/v1/realtime", "/v1/other")
}

func TestUnknownModelNamesTheKnownOnes(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("/v1/realtime?model=nope"))
	h, body := c.ExpectStatus(http.StatusNotFound)
	if h.Get("Content-Type") != "application/json" || !strings.Contains(body, `"nope"`) && !strings.Contains(body, `\"nope\"`) || !strings.Contains(body, "mock") {
		t.Errorf("answer %v %s", h, body)
	}
}

func TestCaseG3HopByHopHeadersStayBehind(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	c := wiretest.Dial(t, r.addr)
	c.SendString(strings.Replace(wiretest.HS, "Connection: Upgrade\r\n", "Connection:\r\nConnection: Upgrade, X-Evil\r\nX-Evil: 1\r\nCookie: a=b\r\n", 1))
	c.Expect101()
	if head := up.Conn(1).Head(); strings.Contains(head, "X-Evil") || strings.Contains(head, "Cookie") {
		t.Errorf("the upstream got\n%s", head)
	}
}

func TestCaseG6ARefusedUpgradeEndsTheConnection(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) { c.Auth.Keys = []auth.Key{{Name: "web", Digest: auth.DigestOf("sk-test-client")}} })
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("", "Authorization: Bearer sk-test-wrong") + "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	h, body := c.ExpectStatus(http.StatusUnauthorized)
	if h.Get("Connection") != "close" || !strings.Contains(body, "invalid_api_key") {
		t.Errorf("answer %v %s", h, body)
	}
	c.ExpectEOF()
	if s := r.log.String(); strings.Contains(s, "sk-test-wrong") {
		t.Errorf("the log holds the client's key:\n%s", s)
	}
	ok, _ := r.connect("Authorization: Bearer sk-test-client")
	ok.ExpectText(wiretest.SessionCreated)
}

func TestABrowserOriginMustBeListed(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) { c.AllowedOrigins = []string{"https://app.example"} })
	f := func(status int, origin string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith("", "Origin: "+origin))
		if status == http.StatusSwitchingProtocols {
			c.Expect101()
			return
		}
		c.ExpectStatus(status)
	}
	f(101, "https://app.example")
	f(403, "https://app.example.evil.example")
	f(403, "null")
}

func TestCaseG8AnUpstreamThatAnswersWronglyIsNeverWarm(t *testing.T) {
	f := func(name, response string, status int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			got := make(chan error, 100)
			up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
				c.Respond(response)
				_, err := c.TryReadFrame()
				got <- err
			})
			r := startRig(t, up, 1)
			c := wiretest.Dial(t, r.addr)
			c.SendString(wiretest.HS)
			c.ExpectStatus(status)
			if err := <-got; err == nil {
				t.Error("the upstream got a frame")
			}
			if s := r.pool().Stats(); s.Idle != 0 {
				t.Errorf("%d warm", s.Idle)
			}
		})
	}
	f("200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", http.StatusBadGateway)
	f("301", "HTTP/1.1 301 Moved Permanently\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", http.StatusBadGateway)
	f("no Upgrade", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", http.StatusBadGateway)
	f("wrong accept", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n", http.StatusBadGateway)
	f("404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", http.StatusNotFound)
	f("403", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", http.StatusBadGateway)
	f("429", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n", http.StatusTooManyRequests)
	f("500", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", http.StatusBadGateway)
}

func TestAnUpstreamThatIsNotReadyInTimeIs504(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Echo) // a 101 and no session.created
	r := startRig(t, up, 0, func(c *Config) { c.ReadyTimeout = 200 * time.Millisecond })
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HS)
	c.ExpectStatus(http.StatusGatewayTimeout)
}

func TestCaseF3HeadersThatComeInPieces(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	head := func(n int, send func(c *wiretest.Client)) string {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		send(c)
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		return withoutNonce(up.Conn(n).Head())
	}
	hs := wiretest.HSWith("", "X-Probe: one")
	whole := head(1, func(c *wiretest.Client) { c.SendString(hs) })
	line := strings.Index(hs, "\r\n") + 2
	split := head(2, func(c *wiretest.Client) {
		c.SendString(hs[:line])
		time.Sleep(50 * time.Millisecond) // the pause of the case: the two parts must not share a read
		c.SendString(hs[line:])
	})
	drip := head(3, func(c *wiretest.Client) { c.Drip([]byte(hs), 1, 2*time.Millisecond) })
	if split != whole || drip != whole {
		t.Errorf("whole:\n%s\nsplit:\n%s\ndripped:\n%s", whole, split, drip)
	}
}

func withoutNonce(head string) string {
	var kept []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if !strings.HasPrefix(line, "Sec-WebSocket-Key") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\r\n")
}

func TestCaseH4SlowHandshakesEnd(t *testing.T) {
	const timeout = time.Second
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 4, func(c *Config) { c.HandshakeTimeout = timeout })
	r.awaitIdle(4)
	var wg sync.WaitGroup
	ended := make(chan time.Duration, 600)
	hang := func(write string, every time.Duration) {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		begun := time.Now()
		if write != "" {
			fmt.Fprint(conn, "GET /v1/realtime?model=mock HTTP/1.1\r\nHost: x\r\n")
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for {
					select {
					case <-time.After(every):
						fmt.Fprint(conn, write)
					case <-stop:
						return
					}
				}
			}()
		}
		conn.SetReadDeadline(begun.Add(timeout + 30*time.Second))
		io.Copy(io.Discard, conn)
		ended <- time.Since(begun)
	}
	for range 500 {
		wg.Go(func() { hang("X: y\r\n", 200*time.Millisecond) })
	}
	for range 100 {
		wg.Go(func() { hang("", 0) })
	}
	c := r.session() // served while the others hang
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
	wg.Wait()
	close(ended)
	for d := range ended {
		if d > timeout+20*time.Second {
			t.Fatalf("a slow handshake lived %v, want at most %v", d, timeout+20*time.Second)
		}
	}
}

func TestOversizedHandshakes(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	f := func(extra string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		_ = c.TrySend([]byte(wiretest.HSWith("", extra)))
		c.ExpectStatus(http.StatusRequestHeaderFieldsTooLarge)
	}
	f("X-Big: " + strings.Repeat("a", 20<<10))
	f("X: y" + strings.Repeat("\r\nX: y", 70))
}

func TestCaseM1TheBetaHeaderIsSentOnlyWhenAskedFor(t *testing.T) {
	f := func(want int, beta bool, lines ...string) {
		t.Helper()
		up := wiretest.NewUpstream(t, wiretest.Ready)
		r := startRig(t, up, 0, func(c *Config) { c.Routes[0].Upstream.Beta = beta })
		r.session(lines...)
		if head := up.Conn(1).Head(); strings.Count(strings.ToLower(head), "openai-beta:") != want {
			t.Errorf("beta %v, client %q: the upstream got\n%s", beta, lines, head)
		}
	}
	f(0, false)
	f(1, true)
	f(1, false, "OpenAI-Beta: realtime=v1")
	f(1, true, "OpenAI-Beta: realtime=v1")
}

func TestTheClientsCredentialsStayBehind(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 0)
	c := r.session("Authorization: Bearer sk-test-client", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-test-sub")
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
	head := up.Conn(1).Head()
	if strings.Contains(head, "sk-test-client") || strings.Contains(head, "sk-test-sub") || !strings.Contains(head, testKey) {
		t.Errorf("the upstream got\n%s", head)
	}
	r.stop()
	if s := r.log.String(); strings.Contains(s, "sk-test-") {
		t.Errorf("the log holds a key:\n%s", s)
	}
}
