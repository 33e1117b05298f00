package daemon

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// drained runs a drain to its end and returns its last message.
func (r *rig) drained(timeout time.Duration) (last *rtdv1.DrainDaemonResponse) {
	r.t.Helper()
	for step, err := range r.control().Drain(r.t.Context(), timeout) {
		if err != nil {
			r.t.Fatal(err)
		}
		last = step
	}
	return last
}

// Peers that do not even answer their Close cannot hold up the report.
func TestCaseD1ADrainReportsAtItsDeadline(t *testing.T) {
	deaf := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		for {
			if _, err := c.TryReadFrame(); err != nil {
				return
			}
		}
	})
	const closing = 6 * time.Second
	r := startRig(t, deaf, 0, func(c *Config) { c.Grace, c.CloseTimeout = 2*closing, closing })
	clients := []*wiretest.Client{r.session(), r.session()}
	const timeout = 400 * time.Millisecond
	begun := time.Now()
	last := r.drained(timeout)
	if took := time.Since(begun); took < timeout || took > timeout+closing-time.Second {
		t.Errorf("the drain took %v", took)
	}
	if d := last.GetDrain(); last.GetState() != rtdv1.DaemonState_DAEMON_STATE_DRAINED || d.GetForced() != 2 || d.GetEnded() != 0 || d.GetRemaining() != 0 || d.GetLeft() != nil {
		t.Errorf("the last message is %v", last)
	}
	for _, c := range clients {
		c.ExpectClose(1001)
	}
	// A drain that comes later joins the one that is over.
	if last := r.drained(time.Hour); last.GetDrain().GetForced() != 2 {
		t.Errorf("the second drain says %v", last)
	}
}

func TestADrainWaitsForSessionsToEnd(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 2)
	r.awaitIdle(2)
	stays := r.session()
	steps := make(chan *rtdv1.DrainDaemonResponse, 100)
	go func() {
		defer close(steps)
		for step, err := range r.control().Drain(t.Context(), time.Minute) {
			if err != nil {
				t.Error(err)
				return
			}
			steps <- step
		}
	}()
	first := <-steps
	if d := first.GetDrain(); first.GetState() != rtdv1.DaemonState_DAEMON_STATE_DRAINING || d.GetRemaining() != 1 || d.GetLeft().AsDuration() > time.Minute {
		t.Errorf("the first message is %v", first)
	}
	up.Await("idle sessions closed", func(u *wiretest.Upstream) bool { return u.Open() == 1 })
	refused := wiretest.Dial(t, r.addr)
	refused.SendString(wiretest.HS)
	refused.ExpectStatus(503)
	if info := must(r.control().Info(t.Context())); info.GetReady() || info.GetState() != rtdv1.DaemonState_DAEMON_STATE_DRAINING || info.GetDrain().GetRemaining() != 1 {
		t.Errorf("info %v", info)
	}
	stays.SendHex(wiretest.Hello)
	stays.ExpectText("Hello")

	stays.SendClose(1000, "")
	stays.ExpectClose(1000)
	stays.Close()
	var last *rtdv1.DrainDaemonResponse
	for step := range steps {
		last = step
	}
	if d := last.GetDrain(); last.GetState() != rtdv1.DaemonState_DAEMON_STATE_DRAINED || d.GetEnded() != 1 || d.GetForced() != 0 {
		t.Errorf("the last message is %v", last)
	}
	up.Await("upstream sessions closed", func(u *wiretest.Upstream) bool { return u.Open() == 0 })
	must(r.control().Resume(t.Context()))
	r.awaitIdle(2)
	if _, result := r.connect(); result != "hit" {
		t.Errorf("after the resume a client is a %s", result)
	}
}

func TestAResumeAbortsADrain(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	c := r.session()
	n := 0
	for _, err := range r.control().Drain(t.Context(), time.Minute) {
		if n++; n == 1 {
			must(r.control().Resume(t.Context()))
			continue
		}
		if err == nil {
			t.Error("a further message after the resume")
		}
	}
	if n != 2 {
		t.Errorf("%d messages, want one and the error", n)
	}
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
	stream := must(rtdv1.NewDaemonServiceClient(r.grpc()).DrainDaemon(t.Context(), &rtdv1.DrainDaemonRequest{Timeout: durationpb.New(-time.Second)}))
	if _, err := stream.Recv(); err == nil {
		t.Error("a negative timeout is taken")
	}
}

func TestAStopEndsADrainAndCannotBeResumed(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, func(c *Config) { c.Grace = time.Minute })
	c := r.session()
	var last error
	resumed := make(chan error, 1)
	for _, err := range r.control().Drain(t.Context(), time.Hour) {
		if last = err; err == nil && len(resumed) == 0 {
			go r.stop()
			r.await("stop", func() bool { state, _ := r.drainState(); return state == rtdv1.DaemonState_DAEMON_STATE_STOPPING })
			_, err := r.control().Resume(t.Context())
			resumed <- err
		}
	}
	if !errors.Is(last, client.ErrStopped) {
		t.Errorf("the drain ended with %v", last)
	}
	if err := <-resumed; err == nil {
		t.Error("a stop was resumed")
	}
	c.ExpectClose(1001)
}

// What an operator does to a pool during a drain of the daemon outlasts it.
func TestAPauseOutlastsADrain(t *testing.T) {
	f := func(before, during func(*client.Client), paused bool) {
		t.Helper()
		r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
		c := r.control()
		before(c)
		r.drained(0)
		during(c)
		must(c.Resume(t.Context()))
		if got := r.pool().Stats().Paused; got != paused {
			t.Errorf("paused %t, want %t", got, paused)
		}
		r.stop()
	}
	nothing := func(*client.Client) {}
	pause := func(c *client.Client) { must(c.PausePool(t.Context(), "")) }
	resume := func(c *client.Client) { must(c.ResumePool(t.Context(), "")) }
	f(nothing, nothing, false)
	f(pause, nothing, true)
	f(nothing, pause, true)
	f(pause, resume, false)
}
