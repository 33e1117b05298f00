// Command licences lists the modules that are built into the project's programs, with the licences of the files found
// beside their code: `licences [-write] ROOT FILE`. Without -write it fails when FILE says something else. Either way it
// fails on a module without a licence and on one whose licence is not in allowed: taking in such a module is a decision,
// and that list is where it is written down. It asks nobody: what it reads is in the module cache.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("write", false, "write FILE instead of comparing with it")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: licences [-write] ROOT FILE")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), *write); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}
