// Command rtctl steers and watches a running rtd.
package main

import (
	"os"

	"github.com/rtd-project/rtd/cmd/rtctl/command"
)

func main() {
	os.Exit(command.Execute(os.Args[1:], os.Stdout, os.Stderr))
}
