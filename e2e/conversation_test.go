package e2e

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/sim"
)

// TestClientsConverse holds one long conversation with every client: without rtd, on a warm session, and on one that is
// dialled for it. Nobody may be able to tell the three apart, on either side.
func TestClientsConverse(t *testing.T) {
	eachClient(t, func(t *testing.T, c sdk) {
		// Answers last 600 ms, so that there is time to cancel one.
		upstream := startSim(t, "--dial-delay", "20ms", "--session-delay", "5ms", "--response-delay", "20ms", "--audio-ms", "3000", "--realtime-factor", "5")
		direct := c.run(t, "talk", upstream, model)
		checkConversation(t, c, direct)
		reference := held(t, upstreamStats(t, upstream), clientKey)

		f := func(result string, size int) {
			t.Helper()
			t.Run(result, func(t *testing.T) {
				before := upstreamStats(t, upstream)
				d := startDaemonTo(t, upstream, size)
				d.awaitIdle(t, size)
				got := c.run(t, "talk", d.base(), model)
				checkConversation(t, c, got)
				sameConversation(t, got, direct)
				d.checkSession(t, c, got, result)
				d.checkPool(t, result, size)
				d.stop(t)

				after := upstreamStats(t, upstream)
				if after.Open != 0 || after.ProtocolErrors != 0 {
					t.Errorf("%d upstream sessions outlive the daemon, and %d protocol errors", after.Open, after.ProtocolErrors)
				}
				after.Connections = after.Connections[len(before.Connections):]
				if got := held(t, after, upstreamKey); got != reference {
					t.Errorf("the upstream saw %+v, and without rtd %+v", got, reference)
				}
			})
		}
		f("hit", 2)
		f("miss", 0)
	})
}

// checkConversation holds a conversation against what the protocol promises an application.
func checkConversation(t *testing.T, c sdk, r report) {
	t.Helper()
	if r.Failure != "" || r.names() != c.steps {
		t.Fatalf("the SDK reports %q after the steps %q: %q", r.Failure, r.names(), r.Story)
	}
	for _, line := range r.Story {
		if strings.HasPrefix(line, "error") {
			t.Errorf("the SDK reports %q", r.Story)
		}
	}
	for _, s := range r.Steps {
		checkStep(t, s)
	}
}

func checkStep(t *testing.T, s step) {
	t.Helper()
	var status, transcript string
	var events []string
	switch s.Name {
	case "open":
		events = []string{"session.created", "session.updated"}
	case "server-vad":
		status, transcript = "completed", "I heard 700 ms of audio."
		events = []string{"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "response.created", "response.done"}
	case "manual":
		status, transcript = "completed", "I heard 300 ms of audio." // the turn before left 100 ms of its silence
		events = []string{"input_audio_buffer.committed", "response.created", "response.output_audio.delta", "response.done"}
	case "function-call":
		status = "completed"
		events = []string{"response.created", "response.function_call_arguments.done", "response.done"}
		if want := []string{`get_weather {"city":"sim"}`}; !slices.Equal(s.Calls, want) {
			t.Errorf("%s: called %q, want %q", s.Name, s.Calls, want)
		}
	case "function-output":
		status, transcript = "completed", "The function answered: sunny"
		events = []string{"response.created", "response.output_audio.delta", "response.done"}
	case "cancel":
		status = "cancelled"
		if s.Reason != "client_cancelled" || !s.Heard {
			t.Errorf("%s: %+v, want the beginning of an answer", s.Name, s)
		}
	case "truncate":
		events = []string{"conversation.item.truncated"}
	}
	if s.Status != status || s.Transcript != transcript {
		t.Errorf("%s: %q %q, want %q %q", s.Name, s.Status, s.Transcript, status, transcript)
	}
	if !inOrder(s.Events, events) {
		t.Errorf("%s: the events %q are not all in %q, in this order", s.Name, events, s.Events)
	}
}

// inOrder reports whether want is a subsequence of got.
func inOrder(got, want []string) bool {
	for _, event := range got {
		if len(want) > 0 && event == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// sameConversation checks that the client could not tell the two apart, but for identifiers and times.
func sameConversation(t *testing.T, got, want report) {
	t.Helper()
	for i := range got.Steps {
		if !reflect.DeepEqual(got.Steps[i], want.Steps[i]) {
			t.Errorf("the client saw\n%+v\nand without rtd\n%+v", got.Steps[i], want.Steps[i])
		}
	}
	if !slices.Equal(got.Story, want.Story) {
		t.Errorf("the SDK reports %q, and without rtd %q", got.Story, want.Story)
	}
}

// checkSession reads the head of the 101, where the client shows it, and the log line of the finished session.
func (d *daemon) checkSession(t *testing.T, c sdk, r report, result string) {
	t.Helper()
	e := d.sessionLine(t, 0)
	if c.headers && (r.Pool != result || r.Session != e.Session) {
		t.Errorf("Rtd-Pool %q, Rtd-Session-Id %q, want %q and %q", r.Pool, r.Session, result, e.Session)
	}
	if e.Pool != result || e.EndedBy != "client" || e.Code != c.code || e.Turns == 0 {
		t.Errorf("the log says %s", e.line)
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

// session is what the upstream saw of a conversation.
type session struct{ messages, audio, responses, code int }

// held finds the one session that held a conversation. All have to come with this key.
func held(t *testing.T, s sim.Stats, key string) (found session) {
	t.Helper()
	n := 0
	for _, conn := range s.Connections {
		if conn.Credential != sim.Fingerprint(key) || conn.Beta != "" {
			t.Errorf("upstream session %+v has another credential", conn)
		}
		if conn.Responses > 0 {
			found = session{int(conn.ClientMessages), int(conn.AudioBytesIn), int(conn.Responses), conn.CloseCode}
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%d upstream sessions held a conversation, want 1: %+v", n, s.Connections)
	}
	return found
}

// The commands of the README, with free ports instead of the usual ones.
func TestDevTour(t *testing.T) {
	needPrograms(t)
	d := startDaemon(t, "--dev")
	d.rtctl(t, "pool", "resize", "64")
	d.awaitIdle(t, 64)
	r := openaiWS.run(t, "turn", d.base(), model)
	if r.Failure != "" || r.names() != "open turn" || r.Steps[1].Transcript != "You said: Are you there?" || r.Pool != "hit" {
		t.Errorf("the client saw %+v, want an answer on a hit", r)
	}
	d.rtctl(t, "stats")
	d.rtctl(t, "status")
}
