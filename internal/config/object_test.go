package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/dialect"
)

const presetHead = "presets:\n  - name: p\n    session:"

func TestASessionIsTheJSONOfItsYAML(t *testing.T) {
	f := func(session, want string) {
		t.Helper()
		c := mustLoad(t, plain+presetHead+session+"\n")
		if got := string(c.Presets[0].Session); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s is %s, want %s", session, got, want)
		}
	}
	f(` {type: realtime, "audio": {output: {speed: 1.50, voice: 'm"n'}}}`, `{"type":"realtime","audio":{"output":{"speed":1.50,"voice":"m\"n"}}}`)
	f(" {b: null, a: ~, c: true, d: False, e: [], f: {}, g: [1, [-0.5e3, x]]}", `{"b":null,"a":null,"c":true,"d":false,"e":[],"f":{},"g":[1,[-0.5e3,"x"]]}`)
	f(" {x: yes, y: 2030-01-01, z: 12:30}", `{"x":"yes","y":"2030-01-01","z":"12:30"}`)
	f(" {big: 99999999999999999999999, huge: 1e999, text: '5'}", `{"big":99999999999999999999999,"huge":1e999,"text":"5"}`)
	f(` {x: "é\u2028<b>&\n\x00"}`, `{"x":"é\u2028<b>&\n\u0000"}`)
	f(`
      instructions: |
        You are "kind".

        Answer in one sentence.
      other: >-
        one
        line
      tools:
        - type: function
          name: f
          parameters: {type: object}
        -
          type: mcp`, `{"instructions":"You are \"kind\".\n\nAnswer in one sentence.\n","other":"one line","tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"mcp"}]}`)
}

func TestFaultsOfPresets(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		expectFaults(t, plain+text, want...)
	}
	const start = "presets:\n  - name: a\n    session: {type: realtime}\n  - name: b\n    session:\n"
	f(start+"      type: realtime\n      speed: .nan\n      on:\n", `rtd.yaml:13:14: presets[1].session.speed: ".nan" is no number to JSON; write one such as 24000 or 0.8, or a text in quotes`,
		`rtd.yaml:14:7: presets[1].session.on: has no value; write null if that is meant`)
	f(start+"      5: x\n      true: y\n", `rtd.yaml:12:7: presets[1].session: a key is no text to YAML; write it in quotes`, `rtd.yaml:13:7: presets[1].session: a key is no text to YAML; write it in quotes`)
	f(start+"      a:\n        - {b: 1, b: 2}\n", `rtd.yaml:13:18: presets[1].session.a[0].b: is given twice, first on line 13; keep one`)
	f(start+"      a: {x: y}\n  - name: a\n    session: {x: y}\n", `rtd.yaml:13:11: presets[2].name: "a" is the name of presets[0] too; give each its own`)
	f(start+"      a: {x: y}\n  - name: a b\n    session: {}\n", `rtd.yaml:13:11: presets[2].name: "a b" is not 1 to 64 visible ASCII characters`, `rtd.yaml:14:5: presets[2].session: is empty; give it at least one key`)
	f("presets:\n  - name: a\n", "rtd.yaml:8:5: presets[0].session: is missing: The `session` of the `session.update` that rtd sends, as the provider has it. In the environment: JSON.")
	f(start + "      a: " + strings.Repeat("x", dialect.MaxPreset-8) + "\n")
	f(start+"      a: "+strings.Repeat("x", dialect.MaxPreset-7)+"\n", "rtd.yaml:11:5: presets[1].session: the value has 262145 bytes as JSON; 262144 are the most")

	route := strings.Replace(plain, "models: [", "preset: supprt\n    models: [", 1)
	expectFaults(t, route, `rtd.yaml:6:13: routes[0].preset: there is no preset "supprt"; there is none under presets`)
	expectFaults(t, route+presetHead+" {a: b}\n  - name: support\n    session: {a: b}\n",
		`rtd.yaml:6:13: routes[0].preset: there is no preset "supprt"; there are p, support; did you mean support?`)
	expectFaults(t, route+presetHead+" {}\n  - name: p\n    session: {a: b}\n", // what is wrong with a preset says nothing of which there are
		`rtd.yaml:6:13: routes[0].preset: there is no preset "supprt"; there are p, p`,
		`rtd.yaml:10:5: presets[0].session: is empty; give it at least one key`,
		`rtd.yaml:11:11: presets[1].name: "p" is the name of presets[0] too; give each its own`)
	expectFaults(t, route+"presets:\n  - name: a b\n    session: {a: b}\n", `rtd.yaml:9:11: presets[0].name: "a b" is not 1 to 64 visible ASCII characters`)
}

func TestAPresetFromTheEnvironment(t *testing.T) {
	f := func(value, wantSession, wantFault string) {
		t.Helper()
		c, err := load(Options{Path: "rtd.yaml", Environ: []string{"RTD_PRESETS_0_NAME=p", "RTD_PRESETS_0_SESSION=" + value}}, []byte(plain))
		if wantFault != "" {
			if err == nil || err.Error() != "RTD_PRESETS_0_SESSION: presets[0].session: "+wantFault {
				t.Errorf("%s: %v, want %s", value, err, wantFault)
			}
			return
		}
		if err != nil || !bytes.Equal(c.Presets[0].Session, []byte(wantSession)) {
			t.Errorf("%s: %v", value, err)
		}
	}
	f(`{ "type" : "realtime", "speed": 1.50 }`, `{"type":"realtime","speed":1.50}`, "")
	f(`null`, "", "the value is not a JSON object")
	f(`{"a":NaN}`, "", "the value is not a JSON object")
	f(`{}`, "", "is empty; give it at least one key")
}

// What a session says is the operator's business: those who look at the configuration need not read it, and it is long.
func TestASessionIsNotShown(t *testing.T) {
	c := mustLoad(t, plain+presetHead+" {instructions: be kind}\n")
	if v := value(t, c, "presets[0].session"); v.Value != "(given)" || v.Origin.Line == 0 {
		t.Errorf("%+v", v)
	}
}
