package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// reluctant is an upstream that never answers its first connection's preset, and obliges all others.
func reluctant(t *testing.T) *obliging {
	o := &obliging{first: map[int]string{}}
	o.Upstream = wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		if c.N == 1 {
			answering(wiretest.Text, nil)(c)
			return
		}
		o.serve(c)
	})
	return o
}

// A reload removes pools after it is in force: who came between must not be sent away.
func TestAClientOutlivesThePoolItWaitsFor(t *testing.T) {
	f := func(remove func(r *rig)) {
		t.Helper()
		r := startRig(t, reluctant(t).Upstream, 0, withPresets)
		c := wiretest.Dial(t, r.addr)
		c.SendString(asking("&preset=sales"))
		r.await("client that waits", func() bool { p := r.poolNamed("up/mock+sales"); return p != nil && p.Stats().Waiting == 1 })
		remove(r)
		if result := c.Expect101().Get("Rtd-Pool"); result != "miss" {
			t.Errorf("a %s, want a miss", result)
		}
		c.ExpectText(wiretest.SessionCreated)
		c.ExpectText(updated(salesSession))
	}
	f(func(r *rig) { r.pools.Remove(r.poolNamed("up/mock+sales").Key()) }) // as the end of a reload does
	f(func(r *rig) { r.reload(func(c *Config) { c.Routes[0].Upstream.SafetyIdentifier = "changed" }) })
}

func TestAPresetThatIsNotAnsweredIsNamed(t *testing.T) {
	ctx, timeIsUp := context.WithCancelCause(t.Context())
	r := startRig(t, wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Timeout = time.Minute
		c.SendString(wiretest.Switching(c.ReadRequest()) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		c.ReadFrame()
		timeIsUp(context.DeadlineExceeded)
		_, _ = c.TryReadFrame() // until rtd gives up
	}), 0, withPresets)
	route := r.current().routes.byModel["mock"]
	target, err := route.target("mock")
	if err != nil {
		t.Fatal(err)
	}
	_, err = route.endpoint.dial(ctx, target, pool.Lifeline{})
	if class, _ := dialect.Classify(err); class != dialect.ClassTimeout || !strings.Contains(fmt.Sprint(err), `preset "support": ready: context deadline exceeded`) {
		t.Errorf("%v, a %v", err, class)
	}
}
