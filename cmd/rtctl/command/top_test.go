package command

import (
	"strings"
	"testing"
)

func TestTopWithoutATerminal(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	golden(t, "top.txt", f)
	_, top, _ := strings.Cut(run("top -o json", f.socket), "\n")
	_, list, _ := strings.Cut(run("session list -o json", f.socket), "\n")
	if top != list || !strings.Contains(top, `"s-3"`) {
		t.Errorf("top -o json is not what session list -o json is:\n%s", top)
	}
}
