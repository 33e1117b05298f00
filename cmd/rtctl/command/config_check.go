package command

import (
	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/config"
)

type checkDocument struct {
	Valid  bool            `json:"valid"`
	Faults []faultDocument `json:"faults"`
}

func newConfigCheck(a *app) *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `Say everything that is wrong with a configuration, one line for each fault.

The status is 0 for a configuration that rtd would take, else 1. What it only names,
its secrets, is not looked at without --secrets: they may be for the service alone.
Certificates and authorities are not read at all: rtd says what is wrong with those.`,
		Example: `  rtctl config check /etc/rtd/rtd.yaml && rtctl reload
  rtctl config check --secrets rtd.yaml
  rtctl config check rtd.yaml -o json | jq -r '.faults[].message'`,
		Args: arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := loadConfig(args[0])
			if err == nil && secrets {
				err = c.CheckSecrets()
			}
			return checkResult(a, args[0], err)
		},
	}
	cmd.Flags().BoolVar(&secrets, "secrets", false, "read the secrets that the configuration names, too")
	return cmd
}

func checkResult(a *app, path string, err error) error {
	if err == nil {
		return a.emit(checkDocument{Valid: true, Faults: []faultDocument{}}, path+": ok\n")
	}
	faults := config.AllFaults(err)
	if err := a.emit(checkDocument{Faults: documentFaults(faults)}, faults.Error()+"\n"); err != nil {
		return err
	}
	return &statusError{status: exitFailed} // the result has said it all
}
