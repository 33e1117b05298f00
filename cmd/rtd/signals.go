package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rtd-project/rtd/daemon"
)

// stopOnSignal cancels on the first SIGTERM or SIGINT, hurries the daemon on the second and exits on the third.
func stopOnSignal(cancel context.CancelFunc, d *daemon.Daemon) {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	cancel()
	<-signals
	d.Hurry()
	<-signals
	os.Exit(1)
}
