package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type sessionEventDocument struct {
	Time    time.Time       `json:"time"` // when rtctl heard of it
	Event   string          `json:"event"`
	Dropped uint64          `json:"dropped"` // events before it that this watch was too slow for
	Session sessionDocument `json:"session"`
}

// wallClock is the time of an event or an archive; a variable for the golden tests.
var wallClock = time.Now

func newSessionWatch(a *app) *cobra.Command {
	var filter sessionFilter
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show sessions as they open and end, one line each",
		Long: `Show sessions as they open and end, one line each, JSON lines with -o json.

First come the sessions that are open: present. A watch that cannot keep up loses
events and is told how many: dropped. It ends with status 0 when it is interrupted
or nobody reads on, and with 1 when the daemon stops.`,
		Example: `  rtctl session watch
  rtctl session watch --model gpt-realtime --result miss
  rtctl session watch -o json | jq -c 'select(.event == "ended") | [.session.id, .session.end.code]'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := filter.check(); err != nil {
				return err
			}
			return watchSessions(cmd.Context(), a, &filter)
		},
	}
	filter.flags(cmd)
	return cmd
}

func watchSessions(ctx context.Context, a *app, filter *sessionFilter) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var dropped uint64 // also before events that the filter kept back
	for event, err := range c.WatchSessions(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil // interrupted
		case err != nil:
			return err
		}
		if dropped += event.GetDropped(); !filter.admits(event.GetSession()) {
			continue
		}
		if err := a.emitSessionEvent(wallClock(), event, dropped); err != nil {
			return err
		}
		dropped = 0
	}
	return nil
}

func (a *app) emitSessionEvent(now time.Time, e *rtdv1.WatchSessionsResponse, dropped uint64) error {
	kind := word(e.GetEvent().String(), "EVENT_")
	if a.format != formatTable {
		return a.emitLine(sessionEventDocument{now.UTC(), kind, dropped, documentSession(e.GetSession())})
	}
	lead := ""
	if a.part != nil {
		lead = fmt.Sprintf("%-*s  ", a.part.width, a.part.name)
	}
	line := fmt.Sprintf("%s%s  %-7s  %s\n", lead, now.Local().Format(time.TimeOnly), kind, strings.ReplaceAll(eventLine(e.GetSession()), "\n", " ")) // what peers word has no lines
	if dropped > 0 {
		line = fmt.Sprintf("%s%s  dropped  %s events that this watch was too slow for\n", lead, now.Local().Format(time.TimeOnly), humanCount(dropped)) + line
	}
	_, err := fmt.Fprint(a.stdout, printable(line))
	return err
}

// eventLine is one session, both its ends and how they came together, in one line.
func eventLine(s *rtdv1.Session) string {
	parts := []string{
		s.GetId(), s.GetClientAddress() + " to " + s.GetTarget(), word(s.GetResult().String(), "POOL_RESULT_"),
	}
	if id := s.GetUpstreamSessionId(); id != "" {
		parts = append(parts, "upstream "+id)
	}
	if s.GetKeyName() != "" {
		parts = append(parts, "key "+s.GetKeyName())
	}
	e := s.GetEnd()
	if e == nil {
		return strings.Join(parts, ", ")
	}
	parts = append(parts, "after "+span(s.GetAge()), humanCount(s.GetResponses().GetCompleted())+" completed",
		strings.TrimSpace(fmt.Sprintf("%d by the %s %s", e.GetCode(), word(e.GetBy().String(), "PARTY_"), e.GetReason())))
	if e.GetError() != "" {
		parts = append(parts, e.GetError())
	}
	return strings.Join(parts, ", ")
}
