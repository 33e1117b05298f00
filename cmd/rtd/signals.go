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

// catchHangup takes SIGHUP from now on: one that comes before the daemon is ready must not end it. With --dev there is
// nothing to reload, and a terminal that closes ends rtd as it would any program.
func catchHangup(o options) <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	if !o.dev {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// reloadOnHangup reloads d on every SIGHUP until ctx ends. Those that come while one is being served are one.
func reloadOnHangup(ctx context.Context, d *daemon.Daemon, signals <-chan os.Signal) {
	select {
	case <-ctx.Done():
		return
	case <-d.Ready():
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			_, _ = d.ReloadFromSource() // it logs how that went
		}
	}
}
