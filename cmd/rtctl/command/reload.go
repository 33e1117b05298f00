package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type reloadDocument struct {
	ConfigPath    string `json:"config_path"`
	PoolsAdded    uint32 `json:"pools_added"`
	PoolsRemoved  uint32 `json:"pools_removed"`
	PoolsRecycled uint32 `json:"pools_recycled"`
}

func newReload(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make rtd read its configuration again",
		Long: `Make rtd read its configuration again.

All of it is put in force for new sessions, and open ones go on; or it has a fault,
the error names each, and nothing changes. SIGHUP does the same.`,
		Example: `  rtctl config check /etc/rtd/rtd.yaml && rtctl reload
  rtctl reload -o json | jq .pools_recycled`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.ReloadDaemonResponse, error) {
				return c.Reload(ctx)
			})
			if err != nil {
				return err
			}
			return a.emit(documentReload(res), text(reloadLine(res)))
		},
	}
}

func documentReload(res *rtdv1.ReloadDaemonResponse) reloadDocument {
	return reloadDocument{res.GetInfo().GetConfigPath(), res.GetPoolsAdded(), res.GetPoolsRemoved(), res.GetPoolsRecycled()}
}

func reloadLine(res *rtdv1.ReloadDaemonResponse) string {
	from := res.GetInfo().GetConfigPath()
	if from == "" {
		from = "the environment"
	}
	return fmt.Sprintf("reloaded %s: %s added, %d removed, %d recycled\n",
		from, plural(res.GetPoolsAdded(), "pool"), res.GetPoolsRemoved(), res.GetPoolsRecycled())
}
