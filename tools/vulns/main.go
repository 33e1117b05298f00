// Command vulns runs govulncheck over a module: `vulns [-db URL] DIR`. It fails on a vulnerability that the module's
// code reaches and on a scan that went wrong. Where the database does not answer it says on a line of its own that
// nothing was looked up, and succeeds, so that a machine without a way to it can run all the other checks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// limit bounds a database that takes the connection and then says nothing.
const limit = 10 * time.Minute

func main() {
	database := flag.String("db", "https://vuln.go.dev", "vulnerability database")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: vulns [-db URL] DIR")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := check(ctx, os.Stdout, *database, flag.Arg(0))
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulns:", err)
		os.Exit(1)
	}
}
