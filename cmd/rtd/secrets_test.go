package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestCaseI1KeysOfTheEnvironmentStayThere(t *testing.T) {
	const upstreamKey, masterKey = "opaque-upstream-key", "opaque-master-key"
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		event := `{"type":"error","error":{"code":"invalid_api_key","message":"bad key ` + upstreamKey + `"}}`
		c.SendString(wiretest.Switching(c.ReadRequest()) + string(c.Frame(true, wiretest.Text, []byte(event))))
		_, _ = c.TryReadFrame()
	})
	p := startProcess(t, []string{"UPSTREAM_KEY=" + upstreamKey, "LITELLM_MASTER_KEY=" + masterKey},
		upstreamArgs(up, "--api-key-env", "UPSTREAM_KEY", "--log-level", "trace", "--pool-size", "2")...)
	for _, key := range []string{masterKey, "opaque-wrong-key"} {
		c := wiretest.Dial(t, p.listen)
		c.SendString(wiretest.HSWith("", "Authorization: Bearer "+key))
		if head, err := c.TryReadHead(); err != nil || strings.Contains(head, key) {
			t.Errorf("%q, %v", head, err)
		}
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	for where, text := range map[string]string{"the command line": string(cmdline), "the log": p.output()} {
		for _, key := range []string{upstreamKey, masterKey, "opaque-wrong-key"} {
			if strings.Contains(text, key) {
				t.Errorf("%s holds %s:\n%s", where, key, text)
			}
		}
	}
	if !strings.Contains(p.output(), "[redacted]") {
		t.Errorf("the upstream's words are not in the log, so nothing was shown:\n%s", p.output())
	}
}

func TestCaseI1KeysInTheWrongPlaceAreNotRepeated(t *testing.T) {
	f := func(args ...string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], append(args, "--socket", t.TempDir()+"/s", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")...)
		cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1", "OPENAI_API_KEY=sk-test-env")
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Contains(string(out), "sk-test-") || len(out) == 0 {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
	f("--upstream", "wss://sk-test-user@upstream.example/v1")
	f("--upstream", "wss://user:sk-test-password@upstream.example/v1")
	f("--upstream", "ws://upstream.example/v1?api_key=sk-test-query", "--api-key-env", "OPENAI_API_KEY")
	f("--upstream", "sk-test-no-url")
	f("--api-key-env", "sk-test-no-name")
	f("--log-level", "sk-test-level")
	f("sk-test-argument")
}
