package command

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/config"
)

func newConfig(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show a configuration of rtd",
		Long: `Check and show a configuration of rtd.

None of these needs a daemon, unless it is asked for with show --live. They read what
rtd would read as it starts: the file, and the environment of this shell over it.`,
		Example: `  rtctl config check /etc/rtd/rtd.yaml
  rtctl config show --live
  rtctl config schema > rtd.schema.json`,
	}
	group(cmd, newConfigCheck(a), newConfigShow(a), newConfigSchema(a))
	return cmd
}

// loadConfig reads what rtd would read, or says what is wrong with it. Without a file there may be $RTD_CONFIG. host: what
// the configuration names is read too. The error is a wrong argument.
func loadConfig(path string, host bool) (*config.Config, config.Faults, error) {
	if path == "" {
		path = os.Getenv(config.ConfigVariable)
	}
	c, err := config.Load(config.Options{Path: path, Environ: os.Environ(), Host: host})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, usagef("there is no file %s; name that of a configuration", path)
	}
	return c, config.AllFaults(err), nil
}

type faultDocument struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Source  string `json:"source"` // as a line of the screen names it: a place in the file or a variable
	Key     string `json:"key"`
	Message string `json:"message"`
}

func documentFaults(faults config.Faults) []faultDocument {
	list := make([]faultDocument, 0, len(faults))
	for _, f := range faults {
		d := faultDocument{File: f.Origin.File, Line: f.Origin.Line, Column: f.Origin.Column, Key: f.Key, Message: f.Message}
		if f.Origin != (config.Origin{}) {
			d.Source = f.Origin.String()
		}
		list = append(list, d)
	}
	return list
}
