package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPoolDrain(a *app) *cobra.Command {
	return newPoolWait(a, (*client.Client).DrainPool, drained, "closing the idle sessions", &cobra.Command{
		Use:   "drain [POOL]",
		Short: "Close the idle sessions of a pool and pause it",
		Long: `Close the idle sessions of a pool with 1001 and pause it.

Sessions that clients hold stay, and new clients are served, each through a dial of
its own, until ` + "`rtctl pool resume`" + `. Returns when the last idle session is closed.`,
		Example: `  rtctl pool drain
  rtctl pool drain openai/gpt-realtime --no-wait`,
	})
}

func drained(p *rtdv1.Pool) (string, bool) {
	left := p.GetIdle() + p.GetClosing()
	return fmt.Sprintf("%s left to close", plural(left, "session")), left == 0
}

// newPoolWait is a command that begins something with one pool and waits for it.
func newPoolWait(a *app, verb func(*client.Client, context.Context, string) (*rtdv1.Pool, error), look func(*rtdv1.Pool) (string, bool), goal string, cmd *cobra.Command) *cobra.Command {
	var name string
	var wait patience
	a.poolChoice(cmd, &name)
	wait.flags(cmd, goal)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := wait.check(); err != nil {
			return err
		}
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		pool, err := bounded(cmd.Context(), func(ctx context.Context) (*rtdv1.Pool, error) { return verb(c, ctx, name) })
		if err != nil {
			return err
		}
		if !wait.noWait {
			if pool, err = wait.watchPool(cmd.Context(), a, c, pool, look); err != nil {
				return err
			}
		}
		return a.emit(documentPool(pool), text(poolLine(pool)))
	}
	return cmd
}
