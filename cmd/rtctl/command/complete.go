package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // there is no such flag: a mistake in this package
	}
}

// onlyFirst completes one argument and no more.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// completePools offers the names of the pools of the daemon that runs.
func (a *app) completePools(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	pools, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) ([]*rtdv1.Pool, error) {
		return c.Pools(ctx)
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, p := range pools {
		if strings.HasPrefix(p.GetName(), toComplete) {
			names = append(names, cobra.CompletionWithDesc(p.GetName(), poolState(p)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSessions offers the ids of the open sessions.
func (a *app) completeSessions(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	sessions, err := a.sessions(cmd.Context(), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []cobra.Completion
	for _, s := range sessions {
		if strings.HasPrefix(s.GetId(), toComplete) {
			ids = append(ids, cobra.CompletionWithDesc(s.GetId(), s.GetTarget()))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
