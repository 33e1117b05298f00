package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// startSim serves a scripted upstream that acts out the failures.
func startSim(t *testing.T, fail ...string) *sim.Server {
	t.Helper()
	var cfg sim.Config
	for _, text := range fail {
		rule, err := sim.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Fail = append(cfg.Fail, rule)
	}
	s, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(context.Background(), ln) // its sessions' errors are rtd's to report
	}()
	t.Cleanup(func() { s.Close(); <-done })
	return s
}

// presetFile is a configuration with two presets, the first of which is the route's.
func presetFile(t *testing.T, s *sim.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rtd.yaml")
	write(t, path, fmt.Sprintf(`upstreams:
  - {name: up, provider: compatible, url: "%s"}
presets:
  - name: support
    session:
      type: realtime
      instructions: |
        You help.
        Answer in one sentence.
      audio: {input: {turn_detection: null}}
  - name: sales
    session: {type: realtime, instructions: You sell.}
routes:
  - models: [mock]
    preset: support
    pool: {size: 2}
clients: {keys: [{name: web, key_env: CLIENT_KEY}]}
`, s.URL()))
	return path
}

// configuredWith opens a client and returns the instructions and the turn detection that the upstream says are in force.
func configuredWith(t *testing.T, addr, query, key string) (c *wiretest.Client, result, instructions, turns string) {
	t.Helper()
	c = wiretest.Dial(t, addr)
	c.SendString(wiretest.HSWith("/v1/realtime?model=mock"+query, "Authorization: Bearer "+key))
	result = c.Expect101().Get("Rtd-Pool")
	for _, want := range []string{"session.created", "session.updated"} {
		var event struct {
			Type    string
			Session struct {
				Instructions string
				Audio        struct {
					Input struct {
						TurnDetection json.RawMessage `json:"turn_detection"`
					}
				}
			}
		}
		_, message := c.ReadMessage()
		if err := json.Unmarshal(message, &event); err != nil || event.Type != want {
			t.Fatalf("%s: %v, want %s", message, err, want)
		}
		instructions, turns = event.Session.Instructions, string(event.Session.Audio.Input.TurnDetection)
	}
	return c, result, instructions, turns
}

func (p *process) awaitWarm(t *testing.T, pool string, n int) {
	t.Helper()
	expect(t, p.rtctl("pool", "resize", fmt.Sprint(n), "--pool", pool), 0) // returns once they are ready
}

// A real file, real processes, and an upstream that understands what it is told.
func TestPresets(t *testing.T) {
	const key = "sk-test-CLIENTKEY"
	path := presetFile(t, startSim(t))
	p := startProcess(t, []string{"CLIENT_KEY=" + key}, "--config", path)
	f := func(query, credential, want string) *wiretest.Client {
		t.Helper()
		c, _, instructions, turns := configuredWith(t, p.listen, query, credential)
		if instructions != want || (turns == "null") != strings.HasPrefix(want, "You help") {
			t.Errorf("%s: instructions %q and turn detection %s", query, instructions, turns)
		}
		return c
	}
	p.awaitWarm(t, "up/mock+support", 2)
	live := f("", key, "You help.\nAnswer in one sentence.\n")
	f("&preset=sales", key, "You sell.")
	p.awaitWarm(t, "up/mock+sales", 2)
	if _, result, _, _ := configuredWith(t, p.listen, "&preset=sales", key); result != "hit" {
		t.Errorf("a %s, want a hit", result)
	}
	list, _ := expect(t, p.rtctl("pool", "list"), 0)
	show, _ := expect(t, p.rtctl("pool", "show", "up/mock+sales"), 0)
	if !strings.Contains(list, "up/mock+support") || !strings.Contains(show, "preset        sales") {
		t.Errorf("%s\n%s", list, show)
	}
	token, _ := expect(t, p.rtctl("token", "mint", "--model", "mock", "--preset", "sales"), 0)
	f("", strings.TrimSpace(token), "You sell.")
	_, text := expect(t, p.rtctl("token", "mint", "--model", "mock", "--preset", "nothing"), 2)
	if want := `there is no preset "nothing" here; known presets: sales, support`; !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
		t.Errorf("%q, want %s in one line", text, want)
	}

	edit(t, path, "You sell.", "You sell less.")
	p.signal(syscall.SIGHUP)
	p.awaitLog(saysReloaded, 1)
	if !strings.Contains(p.output(), `"pools_added":1,"pools_recycled":0,"pools_removed":1`) {
		t.Errorf("a change of one preset of two:\n%s", p.output())
	}
	f("&preset=sales", key, "You sell less.")
	live.SendText(`{"type":"session.update","session":{"instructions":"My own."}}`)
	if _, message := live.ReadMessage(); !strings.Contains(string(message), `"instructions":"My own."`) {
		t.Errorf("a session that was open: %s", message)
	}
	edit(t, path, "preset: support", "preset: supprt")
	_, text = expect(t, p.rtctl("reload"), 1)
	if want := path + `:15:13: routes[0].preset: there is no preset "supprt"; there are support, sales; did you mean support?`; !strings.Contains(text, want) {
		t.Errorf("%s, want %s", text, want)
	}
	shown, _ := expect(t, p.rtctl("config", "show", "--live"), 0)
	if strings.Contains(shown, "You help") || strings.Contains(p.output(), "You help") {
		t.Errorf("a preset's session is shown:\n%s%s", shown, p.output())
	}
}

func TestAPresetThatTheUpstreamRefuses(t *testing.T) {
	path := presetFile(t, startSim(t, "error=invalid_value:no such voice,on=session.update"))
	p := startProcess(t, []string{"CLIENT_KEY=sk-test-CLIENTKEY"}, "--config", path)
	p.awaitLog("it will go on failing until the key, the account, the model or the preset is put right", 1)
	c := wiretest.Dial(t, p.listen)
	c.SendString(wiretest.HSWith("", "Authorization: Bearer sk-test-CLIENTKEY"))
	if _, body := c.ExpectStatus(502); !strings.Contains(body, `"upstream_preset_refused"`) {
		t.Error(body)
	}
	show, _ := expect(t, p.rtctl("pool", "show"), 0)
	if !strings.Contains(show, `preset "support": upstream sent error invalid_value: no such voice`) || !strings.Contains(show, "back-off      config after") {
		t.Error(show)
	}
}
