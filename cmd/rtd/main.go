// Command rtd is the daemon: it keeps warm upstream sessions and relays clients through them. See the package daemon.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rtd-project/rtd/daemon"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code: 0 after an orderly stop, 1 when rtd could not run, 2 for a wrong argument.
func run(args []string) int {
	opts, err := parseOptions(args, os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "rtd:", err)
		return 2
	case opts.version:
		b := daemon.ReadBuild()
		fmt.Println("rtd", b.Version, b.Commit, b.Go)
		return 0
	}
	if err := serve(opts); err != nil {
		fmt.Fprintln(os.Stderr, "rtd:", err)
		return 1
	}
	return 0
}

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
