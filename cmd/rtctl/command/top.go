package command

import (
	"time"

	"github.com/spf13/cobra"
)

func newTop(a *app) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the sessions that do most",
		Long: `Watch the sessions that do most.

On a terminal this is the live view of stats --watch, opened on the sessions; ? there
names its keys. Elsewhere, and with -o json, it is what session list shows.`,
		Example: `  rtctl top
  rtctl top --interval 5s`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkInterval(interval); err != nil {
				return err
			}
			if a.canLive() {
				return runLive(cmd.Context(), a, interval, viewSessions)
			}
			sessions, err := a.sessions(cmd.Context(), "")
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
	intervalFlag(cmd, &interval)
	return cmd
}
