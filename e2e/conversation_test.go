package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

const (
	model          = "gpt-realtime"
	clientKey      = "sk-test-e2e-client" // what conversation.mjs presents
	upstreamKey    = "sk-test-e2e-upstream"
	upstreamKeyEnv = "RTD_E2E_UPSTREAM_KEY"

	conversationTimeout = time.Minute
	uplinkBytes         = 2 * 10 * 960 // turns × chunks × bytes of 20 ms
)

// report is what conversation.mjs saw.
type report struct {
	Pool    string   `json:"pool"`
	Session string   `json:"session"`
	Opening []string `json:"opening"`
	Turns   []turn   `json:"turns"`
	Close   struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"close"`
	Error string `json:"error"`
}

type turn struct {
	Events      []string       `json:"events"`
	AudioBytes  int            `json:"audioBytes"`
	AudioSHA256 string         `json:"audioSHA256"`
	Transcript  string         `json:"transcript"`
	Status      string         `json:"status"`
	Usage       map[string]any `json:"usage"`
}

// converse holds one conversation with the openai package and returns what its client saw.
func converse(t *testing.T, baseURL, model string) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), conversationTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(t), "conversation.mjs", baseURL, model)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("conversation.mjs: %v\n%s", err, out)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("conversation.mjs printed %q: %v", out, err)
	}
	return r
}

// node is the Node.js that package.json pins, or the machine's own where there is no such build.
func node(t *testing.T) string {
	t.Helper()
	if own, err := filepath.Abs("node_modules/.bin/node"); err == nil {
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("no Node.js: run `make e2e`, which installs it")
	}
	return path
}

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

// checkConversation holds a conversation against what the protocol promises an application.
func checkConversation(t *testing.T, r report) {
	t.Helper()
	if r.Error != "" {
		t.Fatalf("the SDK reports %q", r.Error)
	}
	if want := []string{"session.created", "session.updated"}; !slices.Equal(r.Opening, want) {
		t.Errorf("the session opened with %q, want %q", r.Opening, want)
	}
	if len(r.Turns) != 2 {
		t.Fatalf("%d turns, want 2", len(r.Turns))
	}
	for _, turn := range r.Turns {
		if turn.Status != "completed" || turn.AudioBytes == 0 || turn.Transcript == "" || len(turn.Usage) == 0 {
			t.Errorf("turn %+v lacks an answer", turn)
		}
		order := []string{"input_audio_buffer.committed", "response.created", "response.output_audio.delta", "response.done"}
		at := -1
		for _, event := range order {
			next := slices.Index(turn.Events, event)
			if next <= at {
				t.Errorf("%s is at %d of %q, want it after %d", event, next, turn.Events, at)
			}
			at = next
		}
	}
	if r.Close.Code != 1000 {
		t.Errorf("closed with %d %q, want the client's own 1000", r.Close.Code, r.Close.Reason)
	}
}

// sameConversation checks that the client could not tell the two apart, but for identifiers and times.
func sameConversation(t *testing.T, got, want report) {
	t.Helper()
	if !reflect.DeepEqual(got.Opening, want.Opening) {
		t.Errorf("the session opened with %q, and without rtd with %q", got.Opening, want.Opening)
	}
	for i := range min(len(got.Turns), len(want.Turns)) {
		if !reflect.DeepEqual(got.Turns[i], want.Turns[i]) {
			t.Errorf("turn %d is\n%+v\nand without rtd\n%+v", i, got.Turns[i], want.Turns[i])
		}
	}
	if got.Close.Code != want.Close.Code {
		t.Errorf("closed with %+v, and without rtd with %+v", got.Close, want.Close)
	}
}

func TestVoiceConversation(t *testing.T) {
	needPrograms(t)
	upstream := startSim(t, "--dial-delay", "100ms", "--session-delay", "5ms", "--response-delay", "20ms")
	direct := converse(t, upstream+"/v1", model)
	checkConversation(t, direct)

	f := func(result string, size int) {
		t.Helper()
		t.Run(result, func(t *testing.T) {
			before := upstreamStats(t, upstream)
			d := startDaemonTo(t, upstream, size)
			d.awaitIdle(t, size)
			got := converse(t, d.baseURL(), model)
			checkConversation(t, got)
			sameConversation(t, got, direct)
			if got.Pool != result || got.Session == "" {
				t.Errorf("Rtd-Pool %q, Rtd-Session-Id %q, want %q and an id", got.Pool, got.Session, result)
			}
			d.checkSessionLine(t, got, result)
			d.checkPool(t, result, size)
			d.stop(t)
			checkUpstream(t, before, upstreamStats(t, upstream))
		})
	}
	f("hit", 2)
	f("miss", 0)
}

// checkSessionLine reads the one log line of the finished session.
func (d *daemon) checkSessionLine(t *testing.T, r report, result string) {
	t.Helper()
	var ended struct {
		Message string `json:"@message"`
		Session string `json:"session"`
		Pool    string `json:"pool"`
		Turns   int    `json:"turns"`
		EndedBy string `json:"ended_by"`
		Code    int    `json:"code"`
	}
	line := d.await(t, "the session's line", func(line string) bool {
		return json.Unmarshal([]byte(line), &ended) == nil && ended.Session == r.Session && ended.Message == "session ended"
	})
	if ended.Pool != result || ended.Turns != len(r.Turns) || ended.EndedBy != "client" || ended.Code != 1000 {
		t.Errorf("the log says %s", line)
	}
	for _, secret := range []string{clientKey, upstreamKey} {
		if strings.Contains(d.output(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// checkPool checks the count of the one take, and that the pool is whole again.
func (d *daemon) checkPool(t *testing.T, result string, size int) {
	t.Helper()
	d.awaitIdle(t, size)
	eventually(t, "end of the active session", func() bool { return d.pool(t).Active == 0 })
	state := d.pool(t)
	taken := map[string]int{"hit": state.Hits, "miss": state.Misses}
	if taken[result] != 1 || state.Hits+state.Misses != 1 {
		t.Errorf("the pool counts %v, want one %s", taken, result)
	}
}

// checkUpstream reads what the other side saw between two snapshots: all of the audio, on one session, with rtd's own
// credential and never the client's.
func checkUpstream(t *testing.T, before, after sim.Stats) {
	t.Helper()
	if got := after.AudioBytesIn - before.AudioBytesIn; got != uplinkBytes {
		t.Errorf("%d bytes of audio reached the upstream, want %d", got, uplinkBytes)
	}
	if got := after.ResponsesCompleted - before.ResponsesCompleted; got != 2 {
		t.Errorf("the upstream completed %d responses, want 2", got)
	}
	if got := after.ProtocolErrors - before.ProtocolErrors; got != 0 {
		t.Errorf("the upstream saw %d protocol errors", got)
	}
	if after.Open != 0 {
		t.Errorf("%d upstream sessions outlive the daemon", after.Open)
	}
	for _, conn := range after.Connections[len(before.Connections):] {
		if conn.Credential != sim.Fingerprint(upstreamKey) || conn.Beta != "" {
			t.Errorf("upstream session %+v is not rtd's own", conn)
		}
		if conn.Responses > 0 && (conn.Responses != 2 || conn.AudioBytesIn != uplinkBytes || conn.CloseCode != 1000) {
			t.Errorf("upstream session %+v did not hold the whole conversation", conn)
		}
	}
}

func TestUnknownModelIsRefusedWithAStatus(t *testing.T) {
	needPrograms(t)
	d := startDaemonTo(t, startSim(t), 1)
	if r := converse(t, d.baseURL(), "gpt-unheard-of"); !strings.Contains(r.Error, "404") || len(r.Opening) > 0 {
		t.Errorf("the client saw %+v, want the status 404", r)
	}
}

// The commands of the README, with free ports instead of the usual ones.
func TestDevTour(t *testing.T) {
	needPrograms(t)
	d := startDaemon(t, "--dev")
	d.rtctl(t, "pool", "resize", "64")
	d.awaitIdle(t, 64)
	r := converse(t, d.baseURL(), model)
	checkConversation(t, r)
	if r.Pool != "hit" {
		t.Errorf("Rtd-Pool %q, want a hit", r.Pool)
	}
	d.rtctl(t, "stats")
	d.rtctl(t, "status")
	d.stop(t)
	if _, err := os.Stat(d.socket); !os.IsNotExist(err) {
		t.Errorf("the control socket outlives the daemon: %v", err)
	}
}
