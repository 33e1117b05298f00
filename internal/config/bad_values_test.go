package config

import (
	"strings"
	"testing"
)

// badValues are, by kind, YAML values that no key of the kind takes.
var badValues = map[kind][]string{
	kindText:     {`""`, "5", "1.5", "true", "[x]", "{x: y}", `"a\nb"`, "~", "&x y", "*x", "!!str x", `"\u0000"`, ".nan"},
	kindWhole:    {`"8"`, "x", "-1", "1.5", "99999999999999999999", "1_000", "0x10", "[1]", "{x: y}", "true", "~", ".inf"},
	kindNumber:   {`"8"`, "x", "-1", "1e300", "1e3", "[1]", "{x: y}", "true", "~", ".inf", ".nan"},
	kindBool:     {`"true"`, "yes", "1", "[true]", "{x: y}", "~", "TRUE"},
	kindDuration: {`""`, "10", `"10"`, "10 s", "1d", "-5s", "999999h", "5us", "1.s", "[1s]", "{x: y}", "true", "~"},
	kindSize:     {`""`, "10", `"10"`, "10 MiB", "1MB", "-1MiB", "99999999TiB", "1.5GiB", "[1KiB]", "{x: y}", "~"},
	kindTime:     {`""`, "tomorrow", "2030-01-31", "2030-01-31 12:00:00", "5", "[x]", "{x: y}", "~"},
	kindTexts:    {"x", "5", "[]", `[""]`, "[5]", "[[x]]", "[{x: y}]", "[~]", "{x: y}", "~", "[&a b]"},
	kindObject: {
		"x", "5", "true", "[x]", "{}", "~", "{x: }", "{x: .nan}", "{x: [-.inf]}", "{x: 0x10}", "{x: .5}", "{5: x}", "{x: y, x: z}", "{x: {y: &a b}}", "{x: !!str y}", "{x: sk-test-SECRET12}",
		"{sk-test-SECRET12: x}", "&a {x: y}",
	},
	kindIDs: {"0", "[x]", "[-1]", `["0"]`, "[4294967295]", "[1.5]", "[]", "[[0]]", "{x: y}", "~"},
}

// Every bad value of every key yields one fault: on one line, at its place, about its key, and in other words than the
// fault of any other value of the key, unless both are the same mistake.
func TestEveryBadValueOfEveryKey(t *testing.T) {
	f := oneOfEach()
	walk(f.keys(), "", func(path string, k key) {
		for _, bad := range append(badValues[k.scalar.kind], badWords(k)...) {
			doc := everySection()
			put(t, &doc, path, bad)
			text, at := render(doc)
			_, err := loadText(text)
			checkFault(t, path, bad, text, at[path], AllFaults(err))
		}
	})
}

// badWords are further values for a key of which only some texts are right.
func badWords(k key) []string {
	switch {
	case k.scalar.kind == kindTexts && (k.scalar.pattern != "" || k.name == "listen"):
		return []string{"[b a d]", "[sk-test-SECRET12]"}
	case k.scalar.kind == kindTexts:
		return []string{"[x, x]", "[sk-test-SECRET12]"}
	case k.scalar.kind == kindText && (k.scalar.pattern != "" || len(k.scalar.enum) > 0):
		return []string{"bad/bad value", "sk-test-SECRET12"}
	case k.scalar.kind == kindText:
		return []string{"sk-test-SECRET12"}
	}
	return nil
}

func checkFault(t *testing.T, path, bad, text string, at [2]int, faults Faults) {
	t.Helper()
	if len(faults) != 1 {
		t.Errorf("%s: %s: %d faults, want 1: %v\n%s", path, bad, len(faults), faults, text)
		return
	}
	fault, line := faults[0], faults[0].Error()
	if fault.Key != path && !strings.HasPrefix(fault.Key, path+"[") && !strings.HasPrefix(fault.Key, path+".") {
		t.Errorf("%s: %s: the fault is about %q: %s", path, bad, fault.Key, line)
	}
	if o := fault.Origin; o.File != "rtd.yaml" || o.Line != at[0] || o.Column < 1 {
		t.Errorf("%s: %s: it stands on line %d, and the fault says %s", path, bad, at[0], line)
	}
	if strings.ContainsAny(line, "\n\r\x00") || strings.Contains(line, "SECRET") || len(line) > 250 {
		t.Errorf("%s: %s: not a line to show: %q", path, bad, line)
	}
	if !strings.HasPrefix(line, "rtd.yaml:") || strings.Contains(line, "%!") {
		t.Errorf("%s: %s: %s", path, bad, line)
	}
}

func TestColumnsAreThoseOfTheValue(t *testing.T) {
	f := func(path, bad string) {
		t.Helper()
		doc := everySection()
		put(t, &doc, path, bad)
		text, at := render(doc)
		_, err := loadText(text)
		if faults := AllFaults(err); len(faults) != 1 || faults[0].Origin.Column != at[path][1] {
			t.Errorf("%s: %v, want column %d in\n%s", path, err, at[path][1], text)
		}
	}
	f("log.level", "loud")
	f("log.level", `"loud"`)
	f("routes[0].pool.size", "-1")
	f("upstreams[0].ping_interval", "10")
	f("clients.keys[0].max_sessions", "x")
	f("upstreams[0].beta", "yes")
}
