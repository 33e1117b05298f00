package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// answers are the forms in which the sources write a status beside its code.
var answers = []*regexp.Regexp{
	regexp.MustCompile(`\{http\.Status(\w+), "([a-z_]+)"`),
	regexp.MustCompile(`status:\s+http\.Status(\w+),\s+code:\s+"([a-z_]+)"`),
	regexp.MustCompile(`badAsk(\()"([a-z_]+)"`), // always 400
	regexp.MustCompile(`code = "(tls_required)"`),
}

// answered reads what a client can be answered from the packages that answer it, as "400 missing_model".
func answered(t *testing.T) map[string]bool {
	t.Helper()
	numbers := map[string]int{"(": http.StatusBadRequest, "tls_required": http.StatusBadRequest}
	for n := range 600 {
		if text := http.StatusText(n); text != "" {
			numbers[strings.NewReplacer(" ", "", "-", "").Replace(text)] = n
		}
	}
	all := map[string]bool{}
	for _, dir := range []string{".", "../internal/wire", "../internal/dialect"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range answers {
				for _, m := range form.FindAllStringSubmatch(string(source), -1) {
					if numbers[m[1]] == 0 {
						t.Fatalf("%s: no status is called %s", name, m[1])
					}
					all[fmt.Sprint(numbers[m[1]], " ", m[len(m)-1])] = true
				}
			}
		}
	}
	return all
}

// Clients and those who watch them decide by the code: the table has every one, and none that does not exist.
func TestEveryStatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| status | `code` | when |\n")
	if !ok {
		t.Fatal("docs/policies.md has no table of statuses")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[2], -1) {
			documented[strings.TrimSpace(cells[1])+" "+code[1]] = true
		}
	}
	sources := answered(t)
	if len(sources) < 30 {
		t.Errorf("only %d answers found: are they written in another form?", len(sources))
	}
	for _, a := range slices.Sorted(maps.Keys(sources)) {
		if !documented[a] {
			t.Errorf("docs/policies.md does not have %s", a)
		}
	}
	for _, a := range slices.Sorted(maps.Keys(documented)) {
		if !sources[a] {
			t.Errorf("docs/policies.md has %s, which nobody is answered", a)
		}
	}
}
