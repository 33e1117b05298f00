package command

import (
	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	shells := map[string]func(*cobra.Command) error{
		"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(a.stdout, true) },
		"fish": func(root *cobra.Command) error { return root.GenFishCompletion(a.stdout, true) },
		"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(a.stdout) },
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell: bash, fish or zsh",
		Example: `  rtctl completion bash > /etc/bash_completion.d/rtctl
  rtctl completion zsh > "${fpath[1]}/_rtctl"
  source <(rtctl completion bash)`,
		Args:      arguments("the shell"),
		ValidArgs: []cobra.Completion{"bash", "fish", "zsh"},
		RunE: func(cmd *cobra.Command, args []string) error {
			generate, ok := shells[args[0]]
			if !ok {
				return usagef("completion: there is none for %q: bash, fish or zsh", args[0])
			}
			return generate(cmd.Root())
		},
	}
}
