package command

import (
	"strings"

	"github.com/spf13/cobra"
)

func newBench(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what a gateway adds and what a warm pool removes",
		Example: "  rtctl bench connect --self\n  rtctl bench peers",
	}
	group(cmd, newBenchConnect(a), newBenchPeers(a))
	return cmd
}

// benchArgs gives the long flags of a bench command the second dash where they come with one, as other load generators
// write them: -host would be -h with the value ost.
func benchArgs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || !cmd.HasParent() || cmd.Parent().Name() != "bench" {
		return args
	}
	normal := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(normal, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			arg = "-" + arg
		}
		normal = append(normal, arg)
	}
	return normal
}
