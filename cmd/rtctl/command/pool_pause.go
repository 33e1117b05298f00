package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPoolPause(a *app) *cobra.Command {
	return newPoolVerb(a, (*client.Client).PausePool, &cobra.Command{
		Use:   "pause [POOL]",
		Short: "Stop a pool from dialling ahead; what is idle is kept and served",
		Example: `  rtctl pool pause
  rtctl pool pause openai/gpt-realtime`,
	})
}

// newPoolVerb is a command that does one thing to one pool at once.
func newPoolVerb(a *app, verb func(*client.Client, context.Context, string) (*rtdv1.Pool, error), cmd *cobra.Command) *cobra.Command {
	var name string
	a.poolChoice(cmd, &name)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pool, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.Pool, error) {
			return verb(c, ctx, name)
		})
		if err != nil {
			return err
		}
		return a.emit(documentPool(pool), text(poolLine(pool)))
	}
	return cmd
}

// poolLine is one pool in a sentence.
func poolLine(p *rtdv1.Pool) string {
	return fmt.Sprintf("%s: %s; %s of %s idle\n", p.GetName(), poolState(p), number(p.GetIdle()), number(p.GetSize()))
}
