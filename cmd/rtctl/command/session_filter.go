package command

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// sessionFilter chooses sessions; what is empty chooses all.
type sessionFilter struct {
	models, states, keys, results []string
	minAge, maxAge                time.Duration
}

// The words that the filter knows.
var (
	sessionStates  = []string{"connecting", "open", "closing", "ended"}
	sessionResults = []string{"hit", "miss", "bypass"}
)

func (f *sessionFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.models, "model", nil, "only sessions of this model; repeatable")
	flags.StringSliceVar(&f.states, "state", nil, "only sessions in this state: connecting, open, closing or ended; repeatable")
	flags.StringSliceVar(&f.keys, "key", nil, "only sessions of the client key of this name; repeatable")
	flags.StringSliceVar(&f.results, "result", nil, "only sessions that the pool served so: hit, miss or bypass; repeatable")
	flags.DurationVar(&f.minAge, "min-age", 0, "only sessions at least this old")
	flags.DurationVar(&f.maxAge, "max-age", 0, "only sessions at most this old")
	completeFlag(cmd, "state", cobra.FixedCompletions(sessionStates, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(cmd, "result", cobra.FixedCompletions(sessionResults, cobra.ShellCompDirectiveNoFileComp))
}

func (f *sessionFilter) check() error {
	if err := checkWords("state", f.states, sessionStates); err != nil {
		return err
	}
	if err := checkWords("result", f.results, sessionResults); err != nil {
		return err
	}
	switch {
	case f.minAge < 0:
		return usagef("--min-age %v is negative", f.minAge)
	case f.maxAge < 0:
		return usagef("--max-age %v is negative", f.maxAge)
	case f.maxAge > 0 && f.maxAge < f.minAge:
		return usagef("--max-age %v is less than --min-age %v", f.maxAge, f.minAge)
	}
	return nil
}

func checkWords(flag string, words, known []string) error {
	for _, w := range words {
		if !slices.Contains(known, w) {
			return usagef("--%s %q is not one of %s", flag, w, strings.Join(known, ", "))
		}
	}
	return nil
}

func (f *sessionFilter) admits(s *rtdv1.Session) bool {
	age := s.GetAge().AsDuration()
	return among(f.models, s.GetModel()) && among(f.keys, s.GetKeyName()) &&
		among(f.states, word(s.GetState().String(), "SESSION_STATE_")) && among(f.results, word(s.GetResult().String(), "POOL_RESULT_")) &&
		age >= f.minAge && (f.maxAge == 0 || age <= f.maxAge)
}

func among(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// listOrders are the orders of a list, by the words for them. Those of sizes and times begin with the most.
var listOrders = map[string]func(a, b *rtdv1.Session) int{
	"id":        func(a, b *rtdv1.Session) int { return cmp.Compare(a.GetId(), b.GetId()) },
	"model":     func(a, b *rtdv1.Session) int { return cmp.Compare(a.GetModel(), b.GetModel()) },
	"key":       func(a, b *rtdv1.Session) int { return cmp.Compare(a.GetKeyName(), b.GetKeyName()) },
	"state":     func(a, b *rtdv1.Session) int { return cmp.Compare(a.GetState(), b.GetState()) },
	"result":    func(a, b *rtdv1.Session) int { return cmp.Compare(a.GetResult(), b.GetResult()) },
	"age":       most(func(s *rtdv1.Session) int64 { return int64(s.GetAge().AsDuration()) }),
	"quiet":     most(func(s *rtdv1.Session) int64 { return int64(s.GetQuiet().AsDuration()) }),
	"responses": most(func(s *rtdv1.Session) int64 { return int64(s.GetResponses().GetStarted()) }),
	"bytes":     most(func(s *rtdv1.Session) int64 { return int64(s.GetUp().GetBytes() + s.GetDown().GetBytes()) }),
	"held":      most(func(s *rtdv1.Session) int64 { return int64(s.GetHeldBytes()) }),
}

func most(of func(*rtdv1.Session) int64) func(a, b *rtdv1.Session) int {
	return func(a, b *rtdv1.Session) int { return cmp.Compare(of(b), of(a)) }
}

// listOrderNames are the words of listOrders as help and errors list them.
var listOrderNames = []string{"id", "model", "key", "state", "result", "age", "quiet", "responses", "bytes", "held"}

// sortSessions orders by name; sessions that are equal in it stay in order of their ids.
func sortSessions(sessions []*rtdv1.Session, name string, reverse bool) error {
	order, ok := listOrders[name]
	if !ok {
		return usagef("--sort %q is not one of %s", name, strings.Join(listOrderNames, ", "))
	}
	slices.SortStableFunc(sessions, order)
	if reverse {
		slices.Reverse(sessions)
	}
	return nil
}
