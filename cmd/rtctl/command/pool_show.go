package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPoolShow(a *app) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "show [POOL]",
		Short: "Explain one pool: what it holds, what it waits for and why",
		Long: `Explain one pool: what it holds, what it waits for and why.

docs/rtctl.md, "Why a pool waits", says what each word after held up by, failed,
skipped and evicted means, and when it passes.`,
		Example: `  rtctl pool show
  rtctl pool show openai/gpt-realtime -o json | jq .backoff`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.Pool, error) {
				return c.Pool(ctx, name)
			})
			if err != nil {
				return err
			}
			return a.emit(documentPool(pool), poolScreen(pool))
		},
	}
	a.poolChoice(cmd, &name)
	return cmd
}

func poolScreen(p *rtdv1.Pool) *fields {
	f := &fields{}
	f.add("pool", "%s", p.GetName())
	f.add("key", "%s", p.GetKey())
	f.add("target", "%s", p.GetTarget())
	if p.GetPreset() != "" {
		f.add("preset", "%s", p.GetPreset())
	}
	f.add("state", "%s", poolState(p))
	f.add("size", "%s, %s at most", number(p.GetSize()), number(p.GetMaxSize()))
	f.add("connections", "%s, %s", number(p.GetIdle()+p.GetDialing()+p.GetActive()+p.GetClosing()), atMost(p.GetMaxConnections()))
	f.add("idle", "%s", idleLine(p))
	f.add("retirement", "%s", retirementLine(p))
	f.add("dialing", "%s, %s", number(p.GetDialing()), atMost(p.GetMaxDialing()))
	f.add("active", "%s", number(p.GetActive()))
	f.add("closing", "%s", number(p.GetClosing()))
	f.add("waiting", "%s", plural(p.GetWaiting(), "client"))
	f.add("takes", "%s: hits %s, misses %s, hit rate %s", humanCount(p.GetTakes()), humanCount(p.GetHits()), humanCount(p.GetMisses()),
		share(p.GetHits(), p.GetHits()+p.GetMisses()))
	f.add("dials", "%s", humanCount(p.GetDials()))
	f.add("failed", "%s", breakdown(p.GetDialsFailed()))
	f.add("last failure", "%s", failureLine(p.GetLastFailure()))
	f.add("back-off", "%s", backoffLine(p))
	f.add("held up by", "%s", orNone(p.GetBlocked()))
	f.add("skipped", "%s", breakdown(p.GetSkipped()))
	f.add("evicted", "%s", breakdown(p.GetEvicted()))
	return f
}

func atMost(limit uint32) string {
	if limit == 0 {
		return "no limit"
	}
	return number(limit) + " at most"
}

func idleLine(p *rtdv1.Pool) string {
	if p.GetOldestAge() == nil {
		return number(p.GetIdle())
	}
	return fmt.Sprintf("%s, %s to %s old", number(p.GetIdle()), span(p.GetYoungestAge()), span(p.GetOldestAge()))
}

func retirementLine(p *rtdv1.Pool) string {
	line := "none due"
	if p.GetNextRetirementIn() != nil {
		line = "next in " + span(p.GetNextRetirementIn())
	}
	if n := p.GetRecycling(); n > 0 {
		line += ", " + number(n) + " waiting for a replacement"
	}
	return line
}

func failureLine(f *rtdv1.DialFailure) string {
	if f == nil {
		return none
	}
	return fmt.Sprintf("%s, %s ago: %s", f.GetClass(), span(f.GetAge()), f.GetMessage())
}

func backoffLine(p *rtdv1.Pool) string {
	b := p.GetBackoff()
	if b == nil {
		return none
	}
	return fmt.Sprintf("%s after %s, next attempt in %s, then %s at once",
		b.GetClass(), plural(p.GetFailuresInRow(), "failed round"), span(b.GetNextAttemptIn()), plural(p.GetDialLimit(), "dial"))
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
