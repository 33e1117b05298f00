package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/sim"
)

// Delays of the scripted upstream of --dev: what a client of a real one meets, so that a hit and a miss differ visibly.
const (
	devDialDelay     = 100 * time.Millisecond
	devSessionDelay  = 10 * time.Millisecond
	devResponseDelay = 200 * time.Millisecond
)

// startDevUpstream serves a scripted upstream on a free loopback port and points the one route of cfg at it.
func startDevUpstream(cfg *daemon.Config) (stop func(), err error) {
	s, err := sim.New(sim.Config{DialDelay: devDialDelay, SessionDelay: devSessionDelay, ResponseDelay: devResponseDelay})
	if err != nil {
		return nil, err
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("--dev: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(context.Background(), ln) // its sessions' errors are the daemon's to report
	}()
	base, err := url.Parse(s.URL())
	if err != nil {
		return nil, err
	}
	route := &cfg.Routes[0]
	route.Models = append([]string{"mock"}, route.Models...)
	u := &route.Upstream
	u.Dialect, u.Name, u.BaseURL, u.Credential, u.Model = "compatible", "dev", base, "", route.Models[1]
	return func() { s.Close(); <-done }, nil
}

// sayWhatToTry tells a newcomer what to do with a daemon that just runs.
func sayWhatToTry(ctx context.Context, d *daemon.Daemon) {
	select {
	case <-ctx.Done():
		return
	case <-d.Ready():
	}
	fmt.Fprintf(os.Stderr, `
rtd --dev serves a scripted upstream on ws://%s/v1/realtime?model=%s
Now try, elsewhere:  rtctl status  |  rtctl pool resize 64  |  rtctl stats --watch

`, d.Addrs()[0], daemon.DefaultModel)
}
