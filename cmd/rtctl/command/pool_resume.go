package command

import (
	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
)

func newPoolResume(a *app) *cobra.Command {
	return newPoolVerb(a, (*client.Client).ResumePool, &cobra.Command{
		Use:   "resume [POOL]",
		Short: "End a pause or a drain of a pool",
		Example: `  rtctl pool resume
  rtctl pool resume openai/gpt-realtime`,
	})
}
