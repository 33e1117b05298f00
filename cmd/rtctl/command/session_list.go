package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type sessionsDocument struct {
	Sessions []sessionDocument `json:"sessions"`
}

func newSessionList(a *app) *cobra.Command {
	var (
		pool, order string
		reverse     bool
		filter      sessionFilter
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the open sessions",
		Long: `List the open sessions, all of them or those that every filter lets through.

They are in order of their ids, or as --sort says: model, key, state and result from
A to Z, age, quiet, responses, bytes and held from the most to the least.`,
		Example: `  rtctl session list
  rtctl session list --model gpt-realtime --min-age 30m --sort age
  rtctl session list --pool openai/gpt-realtime -o json | jq -r '.sessions[].id'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(filter.check(), sortSessions(nil, order, reverse)); err != nil {
				return err
			}
			sessions, err := a.sessions(cmd.Context(), pool)
			if err != nil {
				return err
			}
			sessions = slices.DeleteFunc(sessions, func(s *rtdv1.Session) bool { return !filter.admits(s) })
			if err := sortSessions(sessions, order, reverse); err != nil {
				return err
			}
			return a.emit(documentSessions(sessions), sessionTable(sessions))
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "only sessions of this pool, by name or key")
	cmd.Flags().StringVar(&order, "sort", "id", "order: "+strings.Join(listOrderNames, ", "))
	cmd.Flags().BoolVar(&reverse, "reverse", false, "the other way round")
	filter.flags(cmd)
	completeFlag(cmd, "pool", a.completePools)
	completeFlag(cmd, "sort", cobra.FixedCompletions(listOrderNames, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func documentSessions(sessions []*rtdv1.Session) sessionsDocument {
	doc := sessionsDocument{make([]sessionDocument, 0, len(sessions))}
	for _, s := range sessions {
		doc.Sessions = append(doc.Sessions, documentSession(s))
	}
	return doc
}

func sessionTable(sessions []*rtdv1.Session) fmt.Stringer {
	if len(sessions) == 0 {
		return text("no sessions\n")
	}
	t := newTable("SESSION", "STATE", "TARGET", "POOL", "CLIENT", "KEY", ">AGE", ">QUIET", ">RESPONSES", ">UP", ">DOWN", ">HELD")
	for _, s := range sessions {
		t.add(s.GetId(), word(s.GetState().String(), "SESSION_STATE_"), s.GetTarget(), word(s.GetResult().String(), "POOL_RESULT_"),
			s.GetClientAddress(), orNone(s.GetKeyName()), span(s.GetAge()), span(s.GetQuiet()), humanCount(s.GetResponses().GetStarted()),
			humanBytes(float64(s.GetUp().GetBytes())), humanBytes(float64(s.GetDown().GetBytes())), humanBytes(float64(s.GetHeldBytes())))
	}
	return t
}
