package rtd_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// shownBy finds the tests that the threat model leans on.
var shownBy = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")

func TestTheThreatModelLeansOnTestsThatExist(t *testing.T) {
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
	walk(t, func(name string) {
		if !strings.HasSuffix(path.Base(name), "_test.go") {
			return
		}
		for _, match := range declared.FindAllStringSubmatch(read(t, name), -1) {
			there[match[1]] = true
		}
	})
	named := shownBy.FindAllStringSubmatch(read(t, "SECURITY.md"), -1)
	if len(named) == 0 {
		t.Fatal("SECURITY.md names no test")
	}
	for _, match := range named {
		if !there[match[1]] {
			t.Errorf("SECURITY.md names %s, which is not there", match[1])
		}
	}
}
