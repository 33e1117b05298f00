package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

const (
	minInterval = 100 * time.Millisecond
	maxInterval = time.Hour
)

func newStats(a *app) *cobra.Command {
	var (
		watch    bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show pools, latency by phase and memory",
		Long: `Show pools, latency by phase and memory.

Latencies are over every session since the daemon started, apart for pool hits,
misses and bypasses. With --watch the figures are shown again each interval: as a
live view on a terminal (? there names its keys), one after the other elsewhere, one
JSON object a line with -o json. A watch ends with status 0 when it is interrupted or
nobody reads on, and with 1 when the daemon stops; the live view waits for it to come
back.`,
		Example: `  rtctl stats
  rtctl stats --watch --interval 5s
  rtctl stats -o json | jq .phases.ready.hit.p50_ms`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !watch && cmd.Flags().Changed("interval"):
				return usagef("--interval goes with --watch")
			case checkInterval(interval) != nil:
				return checkInterval(interval)
			case watch && a.canLive():
				return runLive(cmd.Context(), a, interval, viewOverview)
			case watch:
				return watchStats(cmd.Context(), a, interval)
			}
			stats, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.Stats, error) {
				return c.Stats(ctx)
			})
			if err != nil {
				return err
			}
			return a.emit(documentStats(stats), statsScreen(stats)...)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show them again each interval")
	intervalFlag(cmd, &interval)
	return cmd
}

func intervalFlag(cmd *cobra.Command, interval *time.Duration) {
	cmd.Flags().DurationVar(interval, "interval", 2*time.Second, "time between two looks, 100ms to 1h")
}

func checkInterval(interval time.Duration) error {
	if interval < minInterval || interval > maxInterval {
		return usagef("--interval %v is not between %v and %v", interval, minInterval, maxInterval)
	}
	return nil
}

func watchStats(ctx context.Context, a *app, interval time.Duration) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	show := a.newScreen()
	for stats, err := range c.WatchStats(ctx, interval) {
		switch {
		case ctx.Err() != nil:
			return nil // interrupted
		case err != nil:
			return err
		case a.format != formatTable:
			err = a.emitLine(documentStats(stats))
		default:
			err = show.draw(a.watchHeading(stats, interval) + statsScreen(stats).String())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// watchHeading says when a look was, and of several daemons, at which.
func (a *app) watchHeading(s *rtdv1.Stats, interval time.Duration) string {
	heading := fmt.Sprintf("%s, every %s", s.GetTime().AsTime().Local().Format(time.TimeOnly), interval)
	if a.part != nil {
		heading = a.part.name + ", " + heading
	}
	return heading + "\n\n"
}

// statsScreen is everything `stats` says in one piece of text.
func statsScreen(s *rtdv1.Stats) sheet {
	parts := sheet{
		poolTable(s.GetPools()),
		phaseTable(s.GetPhases()),
		sessionTotals(s.GetSessions()),
		relayTable(s.GetRelay()),
		memoryTable(s.GetMemory()),
	}
	if s.GetTraces().GetOn() {
		parts = append(parts, tracesTable(s.GetTraces()))
	}
	return parts
}

func tracesTable(s *rtdv1.Traces) *table {
	t := newTable("TRACES", ">SPANS SENT", ">WAITING", "DROPPED")
	state := "ok"
	if s.GetFailing() {
		state = "failing"
	}
	t.add(state, humanCount(s.GetSent()), humanCount(s.GetWaiting()), breakdown(s.GetDropped()))
	return t
}

// screenPhases are those that compare a hit with a miss; the documents have them all.
var screenPhases = []struct {
	phase rtdv1.Phase
	label string
}{
	{rtdv1.Phase_PHASE_DIAL, "dial"},
	{rtdv1.Phase_PHASE_READY, "ready"},
	{rtdv1.Phase_PHASE_CREATED, "created"},
	{rtdv1.Phase_PHASE_FIRST_TEXT, "first text"},
	{rtdv1.Phase_PHASE_FIRST_AUDIO, "first audio"},
	{rtdv1.Phase_PHASE_TURN, "turn"},
	{rtdv1.Phase_PHASE_ADDED_UP, "added up"},
	{rtdv1.Phase_PHASE_ADDED_DOWN, "added down"},
	{rtdv1.Phase_PHASE_JITTER_IN_UP, "jitter in up"},
	{rtdv1.Phase_PHASE_JITTER_OUT_UP, "jitter out up"},
	{rtdv1.Phase_PHASE_JITTER_IN_DOWN, "jitter in down"},
	{rtdv1.Phase_PHASE_JITTER_OUT_DOWN, "jitter out down"},
}

func phaseTable(phases []*rtdv1.PhaseSummary) fmt.Stringer {
	t := newTable("PHASE", "RESULT", ">COUNT", ">P50", ">P90", ">P99", ">MAX")
	for _, shown := range screenPhases {
		for _, p := range phases {
			if p.GetPhase() != shown.phase {
				continue
			}
			m := p.GetSummary()
			t.add(shown.label, word(p.GetResult().String(), "POOL_RESULT_"), humanCount(m.GetCount()),
				span(m.GetP50()), span(m.GetP90()), span(m.GetP99()), span(m.GetMax()))
		}
	}
	if len(t.rows) == 0 {
		return text("no latencies yet\n")
	}
	return t
}

func sessionTotals(s *rtdv1.SessionTotals) *table {
	t := newTable(">SESSIONS", ">ACCEPTED", ">ENDED", ">RESPONSES", ">INTERRUPTED", ">LOST", ">ERRORS", ">TOKENS IN", ">OUT", "REFUSED")
	r, u := s.GetResponseTotals(), s.GetUsage()
	t.add(number(s.GetOpen()), humanCount(s.GetAccepted()), humanCount(s.GetEnded()), humanCount(s.GetResponses()),
		humanCount(r.GetInterrupted()), humanCount(r.GetLost()), humanCount(r.GetErrors()),
		humanCount(u.GetInput()), humanCount(u.GetOutput()), breakdown(s.GetRefused()))
	return t
}

func relayTable(r *rtdv1.Relay) *table {
	t := newTable("RELAY", ">FRAMES", ">MESSAGES", ">BYTES", ">MAX ADDED")
	for _, dir := range []struct {
		label string
		flow  *rtdv1.Flow
	}{{"up", r.GetUp()}, {"down", r.GetDown()}} {
		t.add(dir.label, humanCount(dir.flow.GetFrames()), humanCount(dir.flow.GetMessages()),
			humanBytes(float64(dir.flow.GetBytes())), span(dir.flow.GetAddedMax()))
	}
	return t
}
