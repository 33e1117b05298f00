package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		walk(child, visit)
	}
}

func TestEveryHelpHasAnExample(t *testing.T) {
	walk(newRoot(&app{format: formatTable}), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), append(path, "--help"), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s --help: status %d, stderr %q", cmd.CommandPath(), status, &stderr)
		}
		help := stdout.String()
		if !strings.Contains(help, "Examples:\n  rtctl ") {
			t.Errorf("%s --help shows no example", cmd.CommandPath())
		}
		for line := range strings.Lines(help) {
			if len(line) > 120 {
				t.Errorf("%s --help has a line of %d bytes: %q", cmd.CommandPath(), len(line), line)
			}
		}
	})
}

// The examples are command lines that parse.
func TestExamplesParse(t *testing.T) {
	walk(newRoot(&app{format: formatTable}), func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(line, " && ")
			line = strings.TrimSuffix(strings.TrimPrefix(line, "source <("), ")")
			args := split(strings.TrimPrefix(line, "rtctl "))
			root := newRoot(&app{format: formatTable})
			found, rest, err := root.Find(args)
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
}

func TestCompletion(t *testing.T) {
	f := serve(t, newFake(failingPool(), warmPool()))
	g := func(want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), append([]string{"__complete", "--endpoint", f.socket}, args...), &stdout, &stderr); status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, &stderr)
		}
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q: got %q, want %q in it", args, &stdout, want)
		}
	}
	g("resize", "pool", "")
	g("openai/gpt-realtime\twarm", "pool", "show", "")
	g("compatible/local\tback-off", "pool", "resize", "8", "--pool", "comp")
	g("s-2\topenai/gpt-realtime", "session", "close", "s-")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var stdout, stderr bytes.Buffer
		if status := execute(t.Context(), []string{"completion", shell}, &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), "rtctl") {
			t.Errorf("%s: status %d, stderr %q", shell, status, &stderr)
		}
	}
}
