// Command rtd is the daemon: it keeps warm upstream sessions and relays clients through them. See the package daemon.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

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
		return fail(2, err)
	case opts.version:
		b := daemon.ReadBuild()
		fmt.Println("rtd", b.Version, b.Commit, b.Go)
		return 0
	}
	hangups := catchHangup(opts)
	d, files, release, err := prepare(opts)
	if err != nil {
		return fail(2, err)
	}
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go stopOnSignal(cancel, d)
	go reloadOnHangup(ctx, d, hangups)
	go reloadOnChange(ctx, d, files, watchInterval)
	if opts.dev {
		go sayWhatToTry(ctx, d)
	}
	if err := d.Run(ctx); err != nil {
		return fail(1, err)
	}
	return 0
}
