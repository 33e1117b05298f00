package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/config"
)

type checkDocument struct {
	Valid    bool            `json:"valid"`
	Faults   []faultDocument `json:"faults"`
	Warnings []faultDocument `json:"warnings"` // of what works and should not stay so
}

func newConfigCheck(a *app) *cobra.Command {
	var secrets bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a configuration",
		Long: `Say everything that is wrong with a configuration, one line for each fault.

The status is 0 for a configuration that rtd would take, else 1. What it only names is
not looked at without --secrets, since it may be on the service's host alone: secrets,
certificates with their keys, authorities, the group of the control socket. A certificate
whose time is over is a warning, which changes no status: rtd would take it.`,
		Example: `  rtctl config check /etc/rtd/rtd.yaml && rtctl reload
  rtctl config check --secrets rtd.yaml
  rtctl config check rtd.yaml -o json | jq -r '.faults[].message'`,
		Args: arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, faults, err := loadConfig(args[0], secrets)
			switch {
			case err != nil:
				return err
			case len(faults) > 0:
				return checkFailed(a, faults)
			}
			return checkPassed(a, args[0], c.Warnings)
		},
	}
	cmd.Flags().BoolVar(&secrets, "secrets", false, "read what the configuration names, too: secrets, certificates, authorities")
	return cmd
}

func checkFailed(a *app, faults config.Faults) error {
	doc := checkDocument{Faults: documentFaults(faults), Warnings: documentFaults(nil)}
	if err := a.emit(doc, text(faults.Error()+"\n")); err != nil {
		return err
	}
	return &statusError{status: exitFailed} // the result has said it all
}

func checkPassed(a *app, path string, warnings config.Faults) error {
	doc := checkDocument{Valid: true, Faults: documentFaults(nil), Warnings: documentFaults(warnings)}
	var screen strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&screen, "%s (a warning)\n", w)
	}
	return a.emit(doc, text(screen.String()+path+": ok\n"))
}
