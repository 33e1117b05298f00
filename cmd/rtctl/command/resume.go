package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "End a drain: take clients again",
		Example: `  rtctl resume
  rtctl drain --timeout 0 && rtctl resume`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.DaemonInfo, error) {
				return c.Resume(ctx)
			})
			if err != nil {
				return err
			}
			return a.emit(documentStatus(info), text(stateLine(info)+"\n"))
		},
	}
}
