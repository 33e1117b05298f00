package command

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/bench"
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

// programs finds rtctl itself and rtd, of which one is built where there is none. The caller calls forget when it starts no
// more of them.
func programs(ctx context.Context, given string) (rtctl, rtd string, forget func(), err error) {
	dir, err := os.MkdirTemp("", "rtd-build-")
	if err != nil {
		return "", "", nil, err
	}
	forget = func() { _ = os.RemoveAll(dir) } // a temporary directory left behind is no failure of the run
	if rtctl, err = os.Executable(); err == nil {
		rtd, err = bench.FindRTD(ctx, given, dir)
	}
	if err != nil {
		forget()
	}
	return rtctl, rtd, forget, err
}
