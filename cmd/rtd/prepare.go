package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/redact"
)

// gcPercent trades little CPU for a third of the resident set: rtd allocates at handshakes only. GOGC overrides it.
const gcPercent = 50

// prepare makes the daemon of o. release ends what it leans on, once it has stopped.
func prepare(o options) (d *daemon.Daemon, release func(), err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	daemon.LimitMemory()
	release = func() {}
	if o.dev {
		if release, err = startDevUpstream(&o.config); err != nil {
			return nil, nil, err
		}
	}
	if d, err = daemon.New(o.config); err != nil {
		release()
		return nil, nil, err
	}
	return d, release, nil
}

// fail says what was wrong, a line for each fault, and returns code. What was given in the wrong place may be a secret.
func fail(code int, err error) int {
	for fault := range strings.SplitSeq(redact.New().String(err.Error()), "\n") {
		fmt.Fprintln(os.Stderr, "rtd:", fault)
	}
	return code
}
