package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/config"
	"github.com/rtd-project/rtd/internal/redact"
)

// gcPercent trades little CPU for a third of the resident set: rtd allocates at handshakes only. GOGC overrides it.
const gcPercent = 50

// prepare makes the daemon of o. release ends what it leans on, once it has stopped.
func prepare(o options) (d *daemon.Daemon, files *watchedFiles, release func(), err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	daemon.LimitMemory()
	release = func() {}
	if o.dev {
		if release, err = startDevUpstream(&o); err != nil {
			return nil, nil, nil, err
		}
	}
	files = &watchedFiles{}
	cfg, err := readConfig(o, files, nil)
	if err == nil {
		d, err = daemon.New(cfg)
	}
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	cfg.Accepted()
	if !o.dev {
		files.reread = func() (daemon.Config, error) { return readConfig(o, files, files.textInForce()) }
	}
	return d, files, release, nil
}

// readConfig reads the file, unless its text is given, the environment and everything they name; a reload does so again.
// files learns what the configuration was made from once it is in force.
func readConfig(o options, files *watchedFiles, text []byte) (daemon.Config, error) {
	c, err := config.Load(config.Options{Path: o.path, Text: text, Environ: os.Environ(), Flags: o.flags, Host: true})
	if err != nil {
		return daemon.Config{}, err
	}
	cfg, sums, err := configure(c)
	if err != nil {
		return daemon.Config{}, err
	}
	cfg.Values = told(c)
	for _, w := range c.Warnings {
		cfg.Warnings = append(cfg.Warnings, w.Error())
	}
	if !o.dev {
		cfg.Source = func() (daemon.Config, error) { return readConfig(o, files, nil) }
	}
	cfg.Accepted = func() { files.accept(c.Text, sums) }
	return cfg, nil
}

// told is the configuration for people who ask the daemon.
func told(c *config.Config) []daemon.Value {
	var list []daemon.Value
	for _, v := range c.Values() {
		list = append(list, daemon.Value{Key: v.Key, Value: v.Value, Note: v.Note, Origin: v.Origin.String(), Variable: v.Variable, Fixed: v.Fixed})
	}
	return list
}

// fail says what was wrong, a line for each fault, and returns code. What was given in the wrong place may be a secret.
func fail(code int, err error) int {
	for fault := range strings.SplitSeq(redact.New().String(err.Error()), "\n") {
		fmt.Fprintln(os.Stderr, "rtd:", fault)
	}
	return code
}
