package e2e

import (
	"slices"
	"strings"
	"testing"
)

// eachEnding plays a scenario on a session that the upstream ends, by a rule, when it is asked for a response: once for
// every client, on a hit and on a miss.
func eachEnding(t *testing.T, rule, scenario string, check func(t *testing.T, c sdk, r report, d *daemon)) {
	t.Helper()
	eachClient(t, func(t *testing.T, c sdk) {
		f := func(result string, size int) {
			t.Helper()
			t.Run(result, func(t *testing.T) {
				d := startDaemonTo(t, startSim(t, "--fail", rule+",on=response.create,first=1"), size)
				d.awaitIdle(t, size)
				r := c.run(t, scenario, d.base(), model)
				if e := d.sessionLine(t, 0); e.Pool != result || e.EndedBy != "upstream" {
					t.Errorf("the log says %s, want a %s that the upstream ended", e.line, result)
				}
				check(t, c, r, d)
			})
		}
		f("hit", 1)
		f("miss", 0)
	})
}

func TestClientsSeeTheProvidersClose(t *testing.T) {
	const reason = "Your session hit the maximum duration of 60 minutes."
	eachEnding(t, "close=1001:"+reason, "turn", func(t *testing.T, _ sdk, r report, d *daemon) {
		if want := []string{"close 1001 " + reason}; r.names() != "open" || r.Failure != "" || !slices.Equal(r.Story, want) {
			t.Errorf("the client saw %+v, want nothing but %q", r, want)
		}
		if e := d.sessionLine(t, 0); e.Code != 1001 {
			t.Errorf("the log says %s", e.line)
		}
	})
}

func TestClientsSeeTheLossOfTheUpstream(t *testing.T) {
	f := func(action string) {
		t.Run(action, func(t *testing.T) {
			eachEnding(t, action, "turn", func(t *testing.T, _ sdk, r report, _ *daemon) {
				want := []string{"error upstream_connection_lost", "close 1011"}
				if r.names() != "open" || r.Failure != "" || !slices.Equal(r.Story, want) {
					t.Errorf("the client saw %+v, want nothing but %q", r, want)
				}
			})
		})
	}
	f("fin")
	f("reset")
}

func TestClientsReconnect(t *testing.T) {
	f := func(action, code string) {
		t.Run(code, func(t *testing.T) {
			eachEnding(t, action, "resume", func(t *testing.T, c sdk, r report, d *daemon) {
				if r.Failure != "" || r.names() != "open open again turn" || r.Steps[2].Transcript != "You said: Are you there?" {
					t.Errorf("the client saw %+v, want an answer on a second session", r)
				}
				told := func(line string) bool { return strings.HasPrefix(line, "close "+code) || line == "reconnecting "+code }
				if !slices.ContainsFunc(r.Story, told) {
					t.Errorf("the SDK reports %q, and no %s", r.Story, code)
				}
				if e := d.sessionLine(t, 1); e.EndedBy != "client" || e.Code != c.code {
					t.Errorf("the log says %s of the second session", e.line)
				}
			})
		})
	}
	f("close=1012:service restart", "1012")
	f("close=1001:Your session hit the maximum duration of 60 minutes.", "1001")
	f("fin", "1011")
}

func TestClientsSeeARefusal(t *testing.T) {
	eachClient(t, func(t *testing.T, c sdk) {
		d := startDaemonTo(t, startSim(t), 1)
		r := c.run(t, "turn", d.base(), "gpt-unheard-of")
		if r.Failure == "" || len(r.Steps) > 0 || c.status && !strings.Contains(r.Failure, "404") {
			t.Errorf("the client saw %+v, want a failed handshake", r)
		}
	})
}
