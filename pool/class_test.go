package pool

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// What a pool says in one word stands explained on the page of who reads it.
func TestEveryClassAndReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/rtctl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "### Why a pool waits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !ok {
		t.Fatal("docs/rtctl.md has no section for them")
	}
	f := func(word fmt.Stringer) {
		t.Helper()
		if !strings.Contains(section, "`"+word.String()+"`") {
			t.Errorf("docs/rtctl.md does not explain %s", word)
		}
	}
	for c := range Class(NumClasses) {
		f(c)
	}
	for r := range Reason(NumReasons) {
		f(r)
	}
	for s := SkipNone + 1; s < Skip(NumSkips); s++ {
		f(s)
	}
}
