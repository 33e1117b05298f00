package config

import (
	"strings"
	"testing"
)

// Whatever stands in a file, loading it ends with a configuration or with faults that each fit a line and have a place.
func FuzzLoad(f *testing.F) {
	text, _ := render(everySection())
	for _, seed := range []string{
		plain, text, "", "a: b: c\n", "x: &a {b: *c}\n<<: *a\n", "- a\n", "? [q]\n: 1\n", "log: {level: \"\\x00\"}", "\ufefflisten: [::1]:1", "a:\n\t- b",
		"listen: |\n  x\n--- \n...\n%YAML 1.2\n---\nadmin: !!binary x", "upstreams: [{name: a, provider: openai, url: 'wss://sk-test-FUZZ1234@h'}]", "5: x\ntrue: y\n~: z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return // the parser is quadratic in places
		}
		c, err := loadText(text)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v and %v", c, err)
		}
		if c != nil {
			if len(c.Values()) == 0 || len(c.Routes) == 0 {
				t.Errorf("%+v", c.File)
			}
			return
		}
		for _, fault := range AllFaults(err) {
			line := fault.Error()
			if strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "rtd.yaml") {
				t.Errorf("not a line: %q", line)
			}
			if strings.Contains(line, "sk-test-FUZZ1234") {
				t.Errorf("a secret in %q", line)
			}
		}
	})
}
