package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences (SPDX) that code built into the programs may be under: all let it be passed on in binaries
// beside Apache-2.0 and ask for no more than that their texts go with it.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

const (
	unknown = "unknown"
	// threshold is how much of a text, in percent, has to be licence: the rest is names, years and a heading.
	threshold = 75
)

// isLegal reports whether a file of that name says who may do what with the code beside it.
func isLegal(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	return !strings.HasSuffix(name, ".go") && slices.Contains([]string{"licence", "license", "copying", "copyright", "unlicense", "notice", "patents"}, stem) ||
		strings.HasPrefix(stem, "licence-") || strings.HasPrefix(stem, "license-")
}

// identify names the licences in a text, each once, and unknown where it is not one known by its words. A notice and a
// patent grant go with a licence and are none.
func identify(name string, text []byte) []string {
	if lower := strings.ToLower(name); strings.HasPrefix(lower, "notice") || strings.HasPrefix(lower, "patents") {
		return nil
	}
	coverage := licensecheck.Scan(text)
	var found []string
	for _, match := range coverage.Match {
		if !match.IsURL && !slices.Contains(found, match.ID) {
			found = append(found, match.ID)
		}
	}
	if coverage.Percent < threshold || len(found) == 0 {
		found = append(found, unknown)
	}
	slices.Sort(found)
	return found
}

// licences returns those of all files of a module, each once.
func (b *built) licences() []string {
	var all []string
	for _, f := range b.files {
		all = append(all, f.licences...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// refused says what about the modules the project cannot live with; nil is nothing.
func refused(all []built) error {
	var errs []error
	for _, module := range all {
		if len(module.licences()) == 0 {
			errs = append(errs, fmt.Errorf("%s %s has no licence beside its code", module.path, module.version))
		}
		for _, f := range module.files {
			for _, licence := range f.licences {
				if !slices.Contains(allowed, licence) {
					errs = append(errs, fmt.Errorf("%s %s: %s is under %s, which is none of %s", module.path, module.version, f.name, licence, strings.Join(allowed, ", ")))
				}
			}
		}
	}
	return errors.Join(errs...)
}

const heading = `# Third-party code in rtd and rtctl

Written by ` + "`make licences`" + ` from the modules that are built into either program for Linux or macOS, and from the legal texts
beside their code; ` + "`make check`" + ` fails when it is stale, and when a licence is none of %s.
Whoever passes the binaries on passes these texts on with them: they are in the module's directory, which
` + "`go list -m -f '{{.Dir}}' MODULE`" + ` names. Both programs also contain the standard library of Go (BSD-3-Clause).

| module | version | licence | texts | in |
|---|---|---|---|---|
`

func render(all []built) string {
	var b strings.Builder
	fmt.Fprintf(&b, heading, strings.Join(allowed, ", "))
	for _, module := range all {
		var names []string
		for _, f := range module.files {
			names = append(names, f.name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", module.path, module.version,
			strings.Join(module.licences(), ", "), strings.Join(names, ", "), strings.Join(module.programs, ", "))
	}
	return b.String()
}

func run(root, name string, write bool) error {
	all, err := modules(root)
	if err != nil {
		return err
	}
	if err := refused(all); err != nil {
		return err
	}
	if write {
		return os.WriteFile(name, []byte(render(all)), 0o644) //nolint:gosec // a document for everybody
	}
	committed, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return stale(path.Base(name), string(committed), render(all))
}

// stale names the first line in which a committed list is not the one that the modules give.
func stale(name, committed, want string) error {
	got, lines := strings.Split(committed, "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(lines)) {
		var a, b string
		if i < len(got) {
			a = got[i]
		}
		if i < len(lines) {
			b = lines[i]
		}
		if a != b {
			return fmt.Errorf("%s is stale, run make licences: line %d is %q, the modules give %q", name, i+1, a, b)
		}
	}
	return nil
}
