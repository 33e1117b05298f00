package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/config"
	"github.com/rtd-project/rtd/internal/sim"
)

// Delays of the scripted upstream of --dev: what a client of a real one meets, so that a hit and a miss differ visibly.
const (
	devDialDelay     = 100 * time.Millisecond
	devSessionDelay  = 10 * time.Millisecond
	devResponseDelay = 200 * time.Millisecond
)

// startDevUpstream serves a scripted upstream on a free loopback port and points the one route of o at it.
func startDevUpstream(o *options) (stop func(), err error) {
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
	models := o.given("--model")
	if models == nil {
		models = []string{cmp.Or(os.Getenv("OPENAI_REALTIME_MODEL"), config.DefaultModel)}
	}
	o.override("--dev", "upstreams[0].name", "dev")
	o.override("--dev", "upstreams[0].provider", "compatible")
	o.override("--dev", "upstreams[0].url", s.URL())
	o.override("--dev", "upstreams[0].model", models[0])
	o.override("--dev", "routes[0].models", append([]string{"mock"}, models...)...)
	o.override("--dev", "routes[0].upstream", "dev")
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
rtd --dev serves a scripted upstream on %s://%s/v1/realtime?model=%s
It runs in this process: what status and stats say of memory is of both, and a session costs more than in front of a provider.
Now try, elsewhere:  go run ./cmd/rtctl status  |  … pool resize 64  |  … stats --watch

`, d.Scheme(), d.Addrs()[0], config.DefaultModel)
}
