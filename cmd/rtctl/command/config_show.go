package command

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/config"
)

type valueDocument struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Note   string `json:"note"` // what holds where there is no value
	Origin string `json:"origin"`
}

func newConfigShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show every value that would be in force, and where it comes from",
		Long: `Show every value that would be in force, and where it comes from.

FILE is left out for $RTD_CONFIG, or for a start from the environment alone. Secrets
are shown as where they are to be found, never themselves.`,
		Example: `  rtctl config show /etc/rtd/rtd.yaml
  rtctl config show rtd.yaml -o json | jq -r '.[] | select(.origin != "default") | .key'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%sone argument too many: %q", prefix(cmd), args[1])
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			c, err := loadConfig(path)
			if err != nil {
				return errors.New(strings.ReplaceAll(config.AllFaults(err).Error(), "\n", "; "))
			}
			return a.emit(documentValues(c.Values()), valuesScreen(c.Values()))
		},
	}
}

func documentValues(values []config.Value) []valueDocument {
	list := make([]valueDocument, 0, len(values))
	for _, v := range values {
		list = append(list, valueDocument{v.Key, v.Value, v.Note, v.Origin.String()})
	}
	return list
}

func valuesScreen(values []config.Value) string {
	t := newTable("KEY", "VALUE", "ORIGIN")
	for _, v := range values {
		switch {
		case v.Value != "":
			t.add(v.Key, v.Value, v.Origin.String())
		case v.Note != "":
			t.add(v.Key, "-", "default: "+v.Note)
		}
	}
	return t.String()
}
