package command

import (
	"github.com/spf13/cobra"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type sessionsDocument struct {
	Sessions []sessionDocument `json:"sessions"`
}

func newSessionList(a *app) *cobra.Command {
	var pool string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the open sessions",
		Example: `  rtctl session list
  rtctl session list --pool openai/gpt-realtime -o json | jq -r '.sessions[].id'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			sessions, err := a.sessions(cmd.Context(), pool)
			if err != nil {
				return err
			}
			doc := sessionsDocument{make([]sessionDocument, 0, len(sessions))}
			for _, s := range sessions {
				doc.Sessions = append(doc.Sessions, documentSession(s))
			}
			return a.emit(doc, sessionTable(sessions))
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "only sessions of this pool, by name or key")
	completeFlag(cmd, "pool", a.completePools)
	return cmd
}

func sessionTable(sessions []*rtdv1.Session) string {
	if len(sessions) == 0 {
		return "no sessions\n"
	}
	t := newTable("SESSION", "STATE", "TARGET", "POOL", "CLIENT", ">AGE", ">QUIET", ">RESPONSES", ">UP", ">DOWN", ">HELD")
	for _, s := range sessions {
		t.add(s.GetId(), word(s.GetState().String(), "SESSION_STATE_"), s.GetTarget(), word(s.GetResult().String(), "POOL_RESULT_"),
			s.GetClientAddress(), span(s.GetAge()), span(s.GetQuiet()), humanCount(s.GetResponses().GetStarted()),
			humanBytes(float64(s.GetUp().GetBytes())), humanBytes(float64(s.GetDown().GetBytes())), humanBytes(float64(s.GetHeldBytes())))
	}
	return t.String()
}
