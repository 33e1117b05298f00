package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"golang.org/x/vuln/scan"
)

// check scans the module in dir and passes on all that the scanner printed ahead of the verdict, so that no finding is
// lost with a scan that ends badly.
func check(ctx context.Context, out io.Writer, database, dir string) error {
	var printed bytes.Buffer
	cmd := scan.Command(ctx, "-db", database, "-C", dir, "./...")
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	if _, writeErr := printed.WriteTo(out); writeErr != nil {
		return writeErr
	}
	if err != nil && unanswered(err) {
		_, err = fmt.Fprintf(out, "SKIPPED: nothing was looked up, the vulnerability database does not answer: %v\n", err)
	}
	return err
}

// unanswered reports whether the scan ended where it reads the database, which is before it can find anything. The
// scanner has no error value for that; TestNoDatabaseIsSaid holds the words against the pinned version.
func unanswered(err error) bool {
	return strings.HasPrefix(strings.TrimPrefix(err.Error(), "govulncheck: "), "fetching vulnerabilities: ")
}
