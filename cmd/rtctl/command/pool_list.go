package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPoolList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the pools",
		Example: `  rtctl pool list
  rtctl pool list -o json | jq '.pools[] | {name, idle, size}'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pools, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) ([]*rtdv1.Pool, error) {
				return c.Pools(ctx)
			})
			if err != nil {
				return err
			}
			return a.emit(poolsDocument{documentPools(pools)}, poolTable(pools))
		},
	}
}
