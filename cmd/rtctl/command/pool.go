package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newPool(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "pool",
		Short: "Look at and steer the warm pools",
		Example: `  rtctl pool list
  rtctl pool resize 64`,
	},
		newPoolList(a),
		newPoolShow(a),
		newPoolResize(a),
		newPoolPause(a),
		newPoolResume(a),
		newPoolDrain(a),
		newPoolRecycle(a),
	)
}

// poolFlag adds the flag that chooses a pool.
func (a *app) poolFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "pool", "", "name or key of the pool; may be left out when there is only one")
	completeFlag(cmd, "pool", a.completePools)
}

// poolChoice lets a command take its pool as the flag or as its only argument.
func (a *app) poolChoice(cmd *cobra.Command, name *string) {
	a.poolFlag(cmd, name)
	cmd.ValidArgsFunction = onlyFirst(a.completePools)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usagef("%sone argument too many: %q", prefix(cmd), args[1])
		case len(args) == 1 && *name != "":
			return usagef("%sthe pool is named twice, %q and %q", prefix(cmd), args[0], *name)
		case len(args) == 1:
			*name = args[0]
		}
		return nil
	}
}

// poolTable is one line for each pool.
func poolTable(pools []*rtdv1.Pool) fmt.Stringer {
	if len(pools) == 0 {
		return text("no pools yet: the first client of a model makes one\n")
	}
	shared := map[string]int{}
	for _, p := range pools {
		shared[p.GetName()]++
	}
	t := newTable("POOL", "STATE", ">SIZE", ">IDLE", ">DIALING", ">ACTIVE", ">CLOSING", ">HITS", ">MISSES", ">HIT RATE", ">DIALS", ">FAILED")
	for _, p := range pools {
		name := p.GetName()
		if shared[name] > 1 {
			name += " " + p.GetKey() // only the key tells them apart
		}
		t.add(name, poolState(p),
			number(p.GetSize()), number(p.GetIdle()), number(p.GetDialing()), number(p.GetActive()), number(p.GetClosing()),
			humanCount(p.GetHits()), humanCount(p.GetMisses()), share(p.GetHits(), p.GetHits()+p.GetMisses()),
			humanCount(p.GetDials()), humanCount(total(p.GetDialsFailed())))
	}
	return t
}

// poolState is the one word that matters most.
func poolState(p *rtdv1.Pool) string {
	switch {
	case p.GetPaused():
		return "paused"
	case p.GetBackoff() != nil:
		return fmt.Sprintf("back-off %s (%s)", span(p.GetBackoff().GetNextAttemptIn()), p.GetBackoff().GetClass())
	case p.GetRecycling() > 0:
		return "replacing"
	case p.GetIdle() < p.GetSize():
		return "warming"
	}
	return "warm"
}

func number(n uint32) string { return humanCount(uint64(n)) }

// span is a duration of a message for people.
func span(d *durationpb.Duration) string {
	if d == nil {
		return none
	}
	return humanDuration(d.AsDuration())
}

func total(counters map[string]uint64) uint64 {
	var sum uint64
	for _, n := range counters {
		sum += n
	}
	return sum
}

// breakdown lists counters by name: "auth 3, timeout 1".
func breakdown(counters map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if n := counters[name]; n > 0 {
			parts = append(parts, name+" "+humanCount(n))
		}
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ")
}
