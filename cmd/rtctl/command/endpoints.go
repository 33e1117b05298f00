package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/unixsock"
)

// scope is what several endpoints mean to a command.
type scope int

const (
	noDaemon   scope = iota // it asks none
	oneDaemon               // it goes with a single one
	eachOf                  // it is done at each, and the answers are merged
	whoeverHas              // it is done at the one that has the session
)

// scopes are those of all commands that ask a daemon.
var scopes = map[string]scope{
	"status": eachOf, "ready": eachOf, "stats": eachOf, "top": eachOf, "version": eachOf,
	"pool list": eachOf, "pool show": eachOf, "pool resize": eachOf, "pool pause": eachOf, "pool resume": eachOf, "pool drain": eachOf, "pool recycle": eachOf,
	"session list": eachOf, "session watch": eachOf, "session show": whoeverHas, "session close": whoeverHas,
	"drain": eachOf, "resume": eachOf, "reload": eachOf, "log-level get": eachOf, "log-level set": eachOf, "log-level reset": eachOf,
	"config show": eachOf, // with --live
	"token mint":  oneDaemon, "diag": oneDaemon,
}

// part is one daemon's share of a command that is done at several.
type part struct {
	endpoint string
	name     string // short, and different from those of the others
	width    int    // of the longest name
	progress func(text string)
	document any
	sheet    sheet
	err      error
	told     bool // of err
}

// complain tells once of what went wrong.
func (p *part) complain(stderr io.Writer) {
	if p.err != nil && !p.told {
		p.told = true
		(&app{stderr: stderr, part: p}).complain(p.err.Error())
	}
}

// overEndpoints makes every command below cmd that asks a daemon ask as many as there are endpoints.
func (a *app) overEndpoints(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		a.overEndpoints(child)
	}
	s, run := scopes[commandName(cmd)], cmd.RunE
	if s == noDaemon {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(a.endpoints) < 2, a.part != nil, cmd.Flags().Lookup("live") != nil && !isSet(cmd, "live"):
			return run(cmd, args)
		case s == oneDaemon:
			return usagef("%sit is done at one daemon: give one --endpoint", prefix(cmd))
		case a.canLive() && drawsLive(cmd):
			return usagef("%sthe live view shows one daemon: give one --endpoint, or add -o json", prefix(cmd))
		}
		return a.fanOut(cmd, s)
	}
}

// commandName is what follows rtctl: "pool list".
func commandName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// isSet reports whether a command has a switch and it is on.
func isSet(cmd *cobra.Command, name string) bool {
	flag := cmd.Flags().Lookup(name)
	return flag != nil && flag.Value.String() == "true"
}

func isWatch(cmd *cobra.Command) bool { return isSet(cmd, "watch") || cmd.Name() == "watch" }

func drawsLive(cmd *cobra.Command) bool {
	return cmd.Name() == "top" || cmd.Name() == "stats" && isWatch(cmd)
}

// fanOut runs the command line once for each endpoint, all at the same time, and shows what came of it as one result. One that
// fails has a line on stderr and takes nothing from the others; the worst exit status is that of the whole.
func (a *app) fanOut(cmd *cobra.Command, s scope) error {
	parts, err := newParts(a.endpoints)
	if err != nil {
		return err
	}
	for _, p := range parts { // what cannot be an endpoint is found before anything is done at the others
		c, err := a.newClient(p.endpoint)
		if err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	stdout, stderr := &lockedWriter{w: a.stdout}, &lockedWriter{w: a.stderr}
	bar := a.newProgress()
	shareProgress(bar, parts)
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() {
			root := newRoot(&app{stdout: stdout, stderr: stderr, format: formatTable, part: p})
			root.SetArgs(a.args)
			p.err = root.ExecuteContext(ctx)
			switch {
			case errors.Is(p.err, syscall.EPIPE):
				p.err = nil // whoever read has seen enough, also of the others
				cancel()
			case p.err != nil && isWatch(cmd) && exitStatus(p.err) != exitUsage: // the others go on, perhaps for long
				p.complain(stderr)
			}
		})
	}
	running.Wait()
	bar.clear()
	if s == whoeverHas {
		parts = owners(parts)
	}
	if err := a.emitMerged(parts); err != nil {
		return err
	}
	return a.verdict(parts)
}

// shareProgress puts what each part waits for on one line.
func shareProgress(bar *progress, parts []*part) {
	var mu sync.Mutex
	states := make([]string, len(parts))
	for i, p := range parts {
		p.progress = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			states[i] = ""
			if text != "" {
				states[i] = p.name + ": " + text
			}
			bar.show(strings.Join(slices.DeleteFunc(slices.Clone(states), func(s string) bool { return s == "" }), "; "))
		}
	}
}

func newParts(endpoints []string) ([]*part, error) {
	taken := map[string]int{}
	parts := make([]*part, len(endpoints))
	for i, endpoint := range endpoints {
		if endpoint == "" {
			return nil, usagef("--endpoint is empty: give the path of a socket, unix:///path or tcp://host:port")
		}
		parts[i] = &part{endpoint: endpoint, name: daemonName(endpoint)}
		taken[parts[i].name]++
	}
	seen, width := map[string]bool{}, 0
	var sockets []os.FileInfo
	for _, p := range parts {
		if taken[p.name] > 1 {
			p.name = pathOf(p.endpoint)
		}
		socket, err := os.Stat(pathOf(p.endpoint)) // two paths may lead to one
		isThis := func(other os.FileInfo) bool { return err == nil && os.SameFile(socket, other) }
		if seen[p.name] || slices.ContainsFunc(sockets, isThis) {
			return nil, usagef("--endpoint %s is given twice", p.endpoint)
		}
		seen[p.name] = true
		if err == nil {
			sockets = append(sockets, socket)
		}
		width = max(width, utf8.RuneCountInString(p.name))
	}
	for _, p := range parts {
		p.width = width
	}
	return parts, nil
}

// pathOf is the path of a socket's endpoint; that of another names no file.
func pathOf(endpoint string) string {
	return strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:")
}

// daemonName is what tells a daemon from others: host:port, the name of its socket, or of the directory of one that is called
// as all are.
func daemonName(endpoint string) string {
	if address, ok := strings.CutPrefix(endpoint, "tcp://"); ok {
		return address
	}
	dir, file := filepath.Split(pathOf(endpoint))
	if parent := filepath.Base(dir); file == "rtd.sock" && parent != "/" && parent != "." {
		return parent
	}
	return strings.TrimSuffix(file, ".sock")
}

// owners leaves the daemon that has the session. Where none has it, a daemon that could not be asked may be the one.
func owners(parts []*part) []*part {
	var asked, unknown []*part
	for _, p := range parts {
		switch {
		case p.err == nil:
			return []*part{p}
		case !errors.Is(p.err, client.ErrNotFound):
			unknown = append(unknown, p)
		default:
			asked = append(asked, p)
		}
	}
	if len(unknown) > 0 {
		return unknown
	}
	return asked
}

// verdict tells what went wrong where, once where it is the same everywhere, and returns the worst of it.
func (a *app) verdict(parts []*part) error {
	worst, same := exitOK, true
	for _, p := range parts {
		same = same && p.err != nil && !p.told && p.err.Error() == parts[0].err.Error()
		if p.err != nil {
			worst = max(worst, exitStatus(p.err))
		}
	}
	switch {
	case worst == exitOK:
		return nil
	case same:
		return parts[0].err
	}
	for _, p := range parts {
		p.complain(a.stderr)
	}
	return &statusError{status: worst}
}

// endpoint is that of the one daemon that is asked, "" for the one to look for.
func (a *app) endpoint() string {
	switch {
	case a.part != nil:
		return a.part.endpoint
	case len(a.endpoints) > 0:
		return a.endpoints[0]
	}
	return os.Getenv(unixsock.EnvSocket)
}

// lockedWriter lets several write, each its whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
