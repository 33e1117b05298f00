package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/rtd-project/rtd/daemon"
)

// gcPercent trades little CPU for a third of the resident set: rtd allocates at handshakes only. GOGC overrides it.
const gcPercent = 50

func serve(o options) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if o.dev {
		stop, err := startDevUpstream(&o.config)
		if err != nil {
			return err
		}
		defer stop()
	}
	d, err := daemon.New(o.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go stopOnSignal(cancel, d)
	return d.Run(ctx)
}
