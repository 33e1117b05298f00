package e2e

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

const (
	model          = "gpt-realtime"
	clientKey      = "sk-test-e2e-client" // what the scripts present
	upstreamKey    = "sk-test-e2e-upstream"
	upstreamKeyEnv = "RTD_E2E_UPSTREAM_KEY"
)

// startSim runs the scripted upstream and returns its HTTP base URL.
func startSim(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, "rtctl", append([]string{"sim", "--listen", "127.0.0.1:0"}, args...)...)
	line := p.await(t, "its address", func(line string) bool { return strings.Contains(line, "127.0.0.1:") })
	_, rest, _ := strings.Cut(line, "127.0.0.1:")
	port := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	return "http://127.0.0.1:" + port
}

// startDaemonTo runs rtd in front of a scripted upstream.
func startDaemonTo(t *testing.T, upstream string, size int) *daemon {
	t.Helper()
	return startDaemon(t, "--provider", "compatible", "--upstream", strings.Replace(upstream, "http://", "ws://", 1)+"/v1",
		"--api-key-env", upstreamKeyEnv, "--model", model, "--pool-size", strconv.Itoa(size))
}

func upstreamStats(t *testing.T, upstream string) sim.Stats {
	t.Helper()
	answer, err := http.Get(upstream + "/sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var s sim.Stats
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitIdle waits until the only pool of d holds n idle sessions.
func (d *daemon) awaitIdle(t *testing.T, n int) {
	t.Helper()
	eventually(t, strconv.Itoa(n)+" idle sessions", func() bool { return d.pool(t).Idle == n })
}

// poolState is what these tests read of `rtctl pool list -o json`.
type poolState struct {
	Idle   int `json:"idle"`
	Active int `json:"active"`
	Hits   int `json:"hits"`
	Misses int `json:"misses"`
}

func (d *daemon) pool(t *testing.T) poolState {
	t.Helper()
	var list struct {
		Pools []poolState `json:"pools"`
	}
	out := d.rtctl(t, "pool", "list", "-o", "json")
	if err := json.Unmarshal(out, &list); err != nil || len(list.Pools) != 1 {
		t.Fatalf("rtctl pool list -o json printed %s (%v), want one pool", out, err)
	}
	return list.Pools[0]
}

// eventually polls another process, which has no event to wait for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in %v", what, startTimeout)
		}
	}
}

// ended is the log line of a finished session.
type ended struct {
	Message string `json:"@message"`
	Session string `json:"session"`
	Pool    string `json:"pool"`
	Turns   int    `json:"turns"`
	EndedBy string `json:"ended_by"`
	Code    int    `json:"code"`
	line    string
}

// sessionLine reads the line of the nth session that finished, from 0, and checks that the log gives nobody's key away.
func (d *daemon) sessionLine(t *testing.T, n int) ended {
	t.Helper()
	var found ended
	d.await(t, "the session's line", func(line string) bool {
		var e ended
		if json.Unmarshal([]byte(line), &e) != nil || e.Message != "session ended" {
			return false
		}
		found, found.line = e, line
		n--
		return n < 0
	})
	for _, secret := range []string{clientKey, upstreamKey} {
		if strings.Contains(d.output(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	return found
}
