package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Sessions that were in use while their pool was resized and replaced leave nothing behind when they end.
func TestCaseB4NothingOfAnOldGenerationStays(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 5, twoModels)
	ctl := r.control()
	r.await("warm pools", func() bool { return r.warm() == 10 })
	active := []*wiretest.Client{r.session(), r.session(), r.session()}
	for n := range 20 {
		model := []string{"mock", "other"}[n%2]
		if _, _, err := ctl.ResizePool(t.Context(), "up/"+model, uint32(1+n*7%9)); err != nil {
			t.Fatal(err)
		}
		if n%5 == 4 {
			must(ctl.RecyclePool(t.Context(), "up/"+model))
		}
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith("/v1/realtime?model=" + model))
		c.Expect101()
		c.Close()
	}
	atRest := func() bool {
		for _, p := range must(ctl.Pools(t.Context())) {
			if p.GetRecycling()+p.GetClosing()+p.GetDialing() > 0 || p.GetIdle() != p.GetSize() {
				return false
			}
		}
		return true
	}
	const want = 4 + 5
	for n, model := range []string{"up/mock", "up/other"} {
		if _, _, err := ctl.ResizePool(t.Context(), model, uint32(4+n)); err != nil {
			t.Fatal(err)
		}
	}
	r.await("pools at rest", atRest)
	old := up.Dials() // these are to be gone in the end
	must(ctl.RecyclePool(t.Context(), "up/mock"))
	must(ctl.RecyclePool(t.Context(), "up/other"))
	for _, c := range active {
		c.SendHex(wiretest.Hello)
		c.ExpectText("Hello")
		c.Close()
	}
	up.Await("old generations gone", func(u *wiretest.Upstream) bool { return u.Open() == want && u.Dials() == old+want })
	r.await("pools at rest", atRest)
	if n := up.Open(); n != want || up.Dials() != old+want {
		t.Errorf("%d sessions open after %d dials, want %d of the new generation", n, up.Dials()-old, want)
	}
}

// Probes by TCP and by HTTP cost the pool nothing and the log no line.
func TestCaseL4ProbesAreNotLogged(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 3, func(c *Config) { c.LogLevel = hclog.Info })
	r.awaitIdle(3)
	before := r.log.String()
	var probes sync.WaitGroup
	for n := range 4 {
		probes.Go(func() {
			for i := range 250 {
				conn, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Error(err)
					return
				}
				if (n+i)%2 == 0 {
					_ = conn.(*net.TCPConn).SetLinger(0) // the probes of some end with a reset
				}
				conn.Close()
			}
			for range 25 {
				for _, addr := range []net.Addr{r.AdminAddr(), r.listeners.control.Addr()} {
					conn, err := net.Dial(addr.Network(), addr.String())
					if err != nil {
						t.Error(err)
						return
					}
					conn.Close()
				}
				for _, path := range []string{"/healthz", "/readyz"} {
					resp, err := http.Get("http://" + r.AdminAddr().String() + path)
					if err != nil {
						t.Error(err)
						return
					}
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %d %s", path, resp.StatusCode, body)
					}
				}
			}
		})
	}
	probes.Wait()
	if _, result := r.connect(); result != "hit" { // a client behind the probes: all of them were accepted
		t.Errorf("a client is a %s", result)
	}
	if s := r.pool().Stats(); s.Takes != 1 || s.Evicted[0] != 0 {
		t.Errorf("pool after the probes: %+v", s)
	}
	r.awaitIdle(3)
	if n := up.Dials(); n != 4 {
		t.Errorf("%d dials, want those of 3 warm sessions and one successor", n)
	}
	if s := must(r.control().Stats(t.Context())); len(s.GetSessions().GetRefused()) != 0 {
		t.Errorf("probes counted as refused clients: %v", s.GetSessions())
	}
	if after := strings.TrimPrefix(r.log.String(), before); after != "" {
		t.Errorf("log:\n%s", after)
	}
}

func TestCaseN4PercentilesOverTheSocket(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	r.stats.Of("up/mock").Record(stats.Hit, stats.PhaseReady, 500*time.Millisecond)
	for ms := 1; ms <= 1000; ms++ {
		r.stats.Of("up/mock").Record(stats.Miss, stats.PhaseTurn, time.Duration(ms)*time.Millisecond)
	}
	f := func(phase rtdv1.Phase, what string, got, want time.Duration) {
		t.Helper()
		if diff := (got - want).Abs(); diff > want/100 {
			t.Errorf("%v: %s is %v, want %v", phase, what, got, want)
		}
	}
	seen := 0
	for _, row := range must(r.control().Stats(t.Context())).GetPhases() {
		s := row.GetSummary()
		switch row.GetPhase() {
		case rtdv1.Phase_PHASE_READY:
			seen++
			for what, d := range map[string]time.Duration{"p50": s.GetP50().AsDuration(), "p99": s.GetP99().AsDuration(), "min": s.GetMin().AsDuration(), "max": s.GetMax().AsDuration()} {
				if d != 500*time.Millisecond {
					t.Errorf("one sample of 500 ms: %s is %v", what, d)
				}
			}
		case rtdv1.Phase_PHASE_TURN:
			seen++
			if s.GetCount() != 1000 {
				t.Errorf("count %d", s.GetCount())
			}
			f(row.GetPhase(), "p50", s.GetP50().AsDuration(), 500*time.Millisecond)
			f(row.GetPhase(), "p99", s.GetP99().AsDuration(), 990*time.Millisecond)
			f(row.GetPhase(), "p99.9", s.GetP999().AsDuration(), 999*time.Millisecond)
		}
	}
	if seen != 2 {
		t.Error(fmt.Sprint(seen, " of 2 phases are there"))
	}
}
