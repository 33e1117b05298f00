package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot builds the tree. A new subcommand is one file and one line here.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "rtctl",
		Short: "Steer and watch a running rtd",
		Long: `rtctl steers and watches a running rtd over its control socket.

The socket is --endpoint, else $RTD_SOCKET, else the first of /run/rtd/rtd.sock,
$XDG_RUNTIME_DIR/rtd/rtd.sock and /tmp/rtd-UID/rtd.sock that is there. With several
--endpoint a command is done at each, and the answers are one table or document with
the name of the daemon in front. An endpoint tcp://host:port takes --tls-cert and
--tls-key.

Exit status: 0 done; 1 failed; 2 a wrong argument; 3 an invalid benchmark run; 4 a
drain forced sessions to end.`,
		Example: `  rtctl status
  rtctl pool resize 64
  rtctl stats --watch
  rtctl status --endpoint /run/rtd/rtd.sock --endpoint tcp://10.0.0.7:4003`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.endpoints, "endpoint", nil, "daemon to ask: the path of its socket, unix:///path, or tcp://host:port; repeatable")
	a.tls.flags(root)
	flags.VarP(&a.format, "output", "o", "form of the output, table, json or yaml")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagFault(err) })

	group(root,
		newStatus(a),
		newPool(a),
		newSession(a),
		newStats(a),
		newTop(a),
		newDrain(a),
		newResume(a),
		newReload(a),
		newLogLevel(a),
		newReady(a),
		newDiag(a),
		newSchema(a),
		newConfig(a),
		newSim(a),
		newBench(a),
		newToken(a),
		newVersion(a),
		newCompletion(a),
	)
	root.SetHelpCommand(newHelp(root))
	a.overEndpoints(root)
	return root
}

// group makes parent a command that only holds others: alone, or with a word that is
// none of them, it is a wrong argument.
func group(parent *cobra.Command, children ...*cobra.Command) *cobra.Command {
	parent.AddCommand(children...)
	parent.SuggestionsMinimumDistance = 2
	parent.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%sa command is missing: one of %s", prefix(cmd), childNames(cmd))
		}
		hint := "one of " + childNames(cmd)
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("%sthere is no command %q: %s", prefix(cmd), args[0], hint)
	}
	parent.RunE = func(*cobra.Command, []string) error { return nil } // Args has refused
	return parent
}

// prefix is the command that an error is about: "pool resize: ", nothing for the root.
func prefix(cmd *cobra.Command) string {
	if path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()); path != "" {
		return path[1:] + ": "
	}
	return ""
}

func childNames(cmd *cobra.Command) string {
	var names []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return strings.Join(names, ", ")
}

// arguments accepts exactly the named ones.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(args) > len(names):
			return usagef("%sone argument too many: %q", prefix(cmd), args[len(names)])
		}
		return usagef("%smissing %s, as in: %s", prefix(cmd), strings.Join(names[len(args):], " and "), firstExample(cmd))
	}
}

func firstExample(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return line
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Example: "  rtctl help pool resize",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q to explain", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// format is the value of --output.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formats = []format{formatTable, formatJSON, formatYAML}

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

func (f *format) Set(value string) error {
	if !slices.Contains(formats, format(value)) {
		return fmt.Errorf("it is table, json or yaml")
	}
	*f = format(value)
	return nil
}
