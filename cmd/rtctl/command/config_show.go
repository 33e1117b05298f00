package command

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/config"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type valueDocument struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Note   string `json:"note"` // what holds where there is no value
	Origin string `json:"origin"`
}

func newConfigShow(a *app) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show every value that would be in force, or with --live is, and where it comes from",
		Long: `Show every value that would be in force, and where it comes from.

FILE is left out for $RTD_CONFIG, or for a start from the environment alone. With
--live the daemon that runs is asked: what it read when it started or last reloaded,
and what was changed over its control socket since. Secrets are shown as where they
are to be found, never themselves.`,
		Example: `  rtctl config show /etc/rtd/rtd.yaml
  rtctl config show --live
  rtctl config show rtd.yaml -o json | jq -r '.[] | select(.origin != "default") | .key'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%sone argument too many: %q", prefix(cmd), args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if live && len(args) > 0 {
				return usagef("config show: a file does not go with --live, which asks the daemon")
			}
			values, err := shownValues(cmd.Context(), a, live, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.emit(values, valuesScreen(values))
		},
	}
	cmd.Flags().BoolVar(&live, "live", false, "ask the daemon that runs")
	return cmd
}

// shownValues are those of the daemon that runs, or of one that would start now.
func shownValues(ctx context.Context, a *app, live bool, path string) ([]valueDocument, error) {
	if live {
		res, err := call(ctx, a, func(ctx context.Context, c *client.Client) (*rtdv1.GetConfigResponse, error) {
			return c.Config(ctx)
		})
		return documentConfig(res), err
	}
	c, faults, err := loadConfig(path, false)
	switch {
	case err != nil:
		return nil, err
	case len(faults) > 0:
		return nil, errors.New(strings.ReplaceAll(faults.Error(), "\n", "; "))
	}
	return documentValues(c.Values()), nil
}

func documentConfig(res *rtdv1.GetConfigResponse) []valueDocument {
	list := make([]valueDocument, 0, len(res.GetValues()))
	for _, v := range res.GetValues() {
		list = append(list, valueDocument{v.GetKey(), v.GetValue(), v.GetNote(), v.GetOrigin()})
	}
	return list
}

func documentValues(values []config.Value) []valueDocument {
	list := make([]valueDocument, 0, len(values))
	for _, v := range values {
		list = append(list, valueDocument{v.Key, v.Value, v.Note, v.Origin.String()})
	}
	return list
}

func valuesScreen(values []valueDocument) *table {
	t := newTable("KEY", "VALUE", "ORIGIN")
	for _, v := range values {
		switch {
		case v.Value != "":
			t.add(v.Key, v.Value, v.Origin)
		case v.Note != "":
			t.add(v.Key, "-", "default: "+v.Note)
		}
	}
	return t
}
