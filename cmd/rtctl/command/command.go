// Package command holds the subcommands of rtctl, one file each.
//
// Execute guarantees what scripts lean on: results on stdout and nothing else
// there, at most one line on stderr for each daemon where something is wrong, no escape sequence
// where there is no terminal, and one of the exit statuses below.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/client"
)

// Exit statuses of rtctl.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2 // an argument is wrong, or names nothing there is
	exitInvalid = 3 // a benchmark measured its own generator
	exitForced  = 4 // a drain reached its deadline with sessions left
)

// callTimeout bounds a call that the daemon should answer at once.
const callTimeout = 10 * time.Second

// app is what the subcommands share.
type app struct {
	stdout, stderr io.Writer
	args           []string // of the whole command line
	endpoints      []string
	tls            tlsFiles
	format         format
	part           *part // of a command that is done at several daemons, what this one does
	compared       bool  // versions
}

// Execute runs one command line, without the program's name, and returns the exit
// status. SIGINT and SIGTERM end what runs.
func Execute(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, args, stdout, stderr)
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, format: formatTable}
	root := newRoot(a)
	a.args = benchArgs(root, args)
	root.SetArgs(a.args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	// Whoever read the output has seen enough: that is no failure.
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return exitOK
	}
	a.complain(err.Error())
	return exitStatus(err)
}

func exitStatus(err error) int {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status
	}
	if errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrNotFound) {
		return exitUsage
	}
	return exitFailed
}

// statusError ends rtctl with a status of its own.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &statusError{exitUsage, fmt.Sprintf(format, args...)}
}

// connect returns a client of the chosen daemon.
func (a *app) connect(ctx context.Context) (*client.Client, error) {
	c, err := a.newClient(a.endpoint())
	if err == nil {
		a.compareVersions(ctx, c)
	}
	return c, err
}

// newClient returns one that has not connected yet.
func (a *app) newClient(endpoint string) (*client.Client, error) {
	if !strings.HasPrefix(endpoint, "tcp://") {
		return client.New(endpoint)
	}
	config, err := a.tls.read(endpoint)
	if err != nil {
		return nil, err
	}
	return client.New(endpoint, client.WithTLS(config))
}

// call makes one client and one bounded call with it.
func call[T any](ctx context.Context, a *app, f func(context.Context, *client.Client) (T, error)) (T, error) {
	var none T
	c, err := a.connect(ctx)
	if err != nil {
		return none, err
	}
	defer c.Close()
	return bounded(ctx, func(ctx context.Context) (T, error) { return f(ctx, c) })
}

// bounded makes one call that the daemon should answer at once.
func bounded[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx)
}
