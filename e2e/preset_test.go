package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startDaemonWithPreset runs rtd in front of a scripted upstream, with a preset on its one route.
func startDaemonWithPreset(t *testing.T, upstream string, size int) *daemon {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rtd.yaml")
	text := fmt.Sprintf(`upstreams:
  - {name: up, provider: compatible, url: "%s/v1", api_key_env: %s}
presets:
  - name: support
    session:
      type: realtime
      instructions: |
        You answer for the support of a shop.
      audio: {input: {turn_detection: null}}
routes:
  - {models: [%s], preset: support, pool: {size: %d}}
`, strings.Replace(upstream, "http://", "ws://", 1), upstreamKeyEnv, model, size)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startDaemon(t, "--config", path)
}

// A client that configures its session as ever takes one that is configured already for what it expects.
func TestClientsOfAPreset(t *testing.T) {
	eachClient(t, func(t *testing.T, c sdk) {
		f := func(result string, size int) {
			t.Helper()
			t.Run(result, func(t *testing.T) {
				d := startDaemonWithPreset(t, startSim(t), size)
				d.awaitIdle(t, size)
				r := c.run(t, "turn", d.base(), model)
				if r.Failure != "" || r.names() != "open turn" || r.Steps[1].Transcript != "You said: Are you there?" {
					t.Errorf("the client saw %+v", r)
				}
				if e := d.sessionLine(t, 0); e.Pool != result || !strings.Contains(e.line, `"preset":"support"`) {
					t.Errorf("the log says %s", e.line)
				}
			})
		}
		f("hit", 1)
		f("miss", 0)
	})
}
