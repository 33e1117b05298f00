package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scriptTimeout is longer than any step of a script may take.
const scriptTimeout = 90 * time.Second

// sdk is a client that applications use, with the script that drives it.
type sdk struct {
	name    string
	runtime func(t *testing.T) string // finds the program that runs the script
	script  []string
	tls     bool // dials wss:// and nothing else
	headers bool // shows its application the head of the 101
	status  bool // tells its application the status of a refusal
	steps   string
	code    int // its own Close; 1005: none
}

// Every script that can takes all of these steps. A RealtimeSession decides itself when a response is asked for.
const (
	allSteps    = "open server-vad manual function-call function-output cancel truncate"
	agentsSteps = "open server-vad function-call function-output cancel truncate"
)

var (
	openaiWS        = sdk{name: "openai-ws", runtime: node, script: []string{"openai.mjs", "OpenAIRealtimeWS"}, headers: true, status: true, steps: allSteps, code: 1000}
	openaiWebSocket = sdk{name: "openai-websocket", runtime: node, script: []string{"openai.mjs", "OpenAIRealtimeWebSocket"}, tls: true, steps: allSteps, code: 1000}
	agents          = sdk{name: "agents", runtime: node, script: []string{"agents.mjs"}, status: true, steps: agentsSteps, code: 1005}
	openaiPython    = sdk{name: "openai-python", runtime: python, script: []string{"openai_python.py"}, status: true, steps: allSteps, code: 1000}
)

// eachClient runs f for every SDK, side by side.
func eachClient(t *testing.T, f func(t *testing.T, c sdk)) {
	needPrograms(t)
	for _, c := range []sdk{openaiWS, openaiWebSocket, agents, openaiPython} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f(t, c)
		})
	}
}

// report is what a script prints.
type report struct {
	Pool    string   `json:"pool"`
	Session string   `json:"session"`
	Steps   []step   `json:"steps"`
	Story   []string `json:"story"`   // what the SDK reported beside the events, in order
	Failure string   `json:"failure"` // what the SDK ended the run with, "" for nothing
}

type step struct {
	Name       string         `json:"name"`
	Status     string         `json:"status"` // of its response
	Reason     string         `json:"reason"`
	Events     []string       `json:"events"`
	Heard      bool           `json:"heard"`
	Audio      string         `json:"audio"` // SHA-256 of the answer
	Transcript string         `json:"transcript"`
	Calls      []string       `json:"calls"`
	Usage      map[string]any `json:"usage"`
}

func (r report) names() string {
	var names []string
	for _, s := range r.Steps {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// run plays a scenario against the server at base, http://HOST:PORT, and returns what the client saw.
func (c sdk) run(t *testing.T, scenario, base, model string) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	defer cancel()
	// Nothing of the caller's own set-up may reach the SDKs: they read keys, base URLs and proxies from the environment.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if c.tls {
		var ca string
		base, ca = startTLS(t, strings.TrimPrefix(base, "http://"))
		env = append(env, "NODE_EXTRA_CA_CERTS="+ca)
	}
	args := append([]string{filepath.Join("clients", c.script[0])}, c.script[1:]...)
	cmd := exec.CommandContext(ctx, c.runtime(t), append(args, scenario, base+"/v1", model)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", c.name, scenario, err, out)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%s %s printed %q: %v", c.name, scenario, out, err)
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

// python is the interpreter of the environment that `make e2e` fills from requirements.txt, where it can.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(".venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skip("SKIPPED: the openai package for Python is not installed; `make e2e` says why")
	}
	return path
}
