package command

import (
	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/config"
)

func newConfigSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Example: `  rtctl config schema > rtd.schema.json
  rtctl config schema | jq '.properties | keys'`,
		Args: arguments(),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(config.Schema())
			return err
		},
	}
}
