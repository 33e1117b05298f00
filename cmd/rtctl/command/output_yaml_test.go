package command

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

func TestYAMLScreens(t *testing.T) {
	wallClock = func() time.Time { return noon }
	t.Cleanup(func() { wallClock = time.Now })
	golden(t, "yaml.txt", serve(t, watchedFake()))
}

// YAML says what JSON says, also of what an upstream worded to steer a terminal.
func TestYAMLIsTheSameDocument(t *testing.T) {
	f := serve(t, newFake(failingPool(), warmPool()))
	f.sessions[0].ClientAddress = "- yes: \x1b[2J\n%null # ~"
	g := func(line string) {
		t.Helper()
		decode := func(format string) (v any) {
			var stdout, stderr bytes.Buffer
			if status := execute(t.Context(), append([]string{"--endpoint", f.socket, "-o", format}, split(line)...), &stdout, &stderr); status != 0 {
				t.Fatalf("%s: %s", line, &stderr)
			}
			text := stdout.Bytes()
			if format == "yaml" {
				if err := yaml.Unmarshal(text, &v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				var err error
				if text, err = json.Marshal(v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				v = nil
				if bytes.ContainsRune(stdout.Bytes(), '\x1b') {
					t.Errorf("%s: an escape: %q", line, &stdout)
				}
			}
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return v
		}
		if a, b := decode("json"), decode("yaml"); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: JSON %v\nYAML %v", line, a, b)
		}
	}
	g("status")
	g("stats")
	g("pool list")
	g("session list")
	g("config show --live")
	g("ready")
	g("version")
	g("schema")
}
