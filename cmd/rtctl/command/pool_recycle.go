package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPoolRecycle(a *app) *cobra.Command {
	return newPoolWait(a, (*client.Client).RecyclePool, recycled, "replacing the idle sessions", &cobra.Command{
		Use:   "recycle [POOL]",
		Short: "Replace every idle session of a pool",
		Long: `Replace every idle session of a pool, for example after a key was rotated.

Each is closed once its replacement is ready, as far as max_connections leaves room.
Returns when the last one is replaced; at once for a paused pool, which replaces them
when it is resumed.`,
		Example: `  rtctl pool recycle
  rtctl pool recycle openai/gpt-realtime --timeout 5m`,
	})
}

func recycled(p *rtdv1.Pool) (string, bool) {
	state := fmt.Sprintf("%s left to replace", plural(p.GetRecycling(), "session"))
	if p.GetBackoff() != nil {
		state += ", " + poolState(p)
	}
	return state, p.GetRecycling() == 0 || p.GetPaused()
}
