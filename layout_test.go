// Package rtd_test holds what is true of the tree as a whole: which package may import which, that every package says
// what it guarantees, and that the tree builds wherever it is checked out.
package rtd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rtd-project/rtd/"

// The modules behind the floors. A trailing slash in a floor means everything below.
const (
	bubbletea = "charm.land/bubbletea/v2"
	cobra     = "github.com/spf13/cobra"
	goyaml    = "github.com/goccy/go-yaml/"
	grpc      = "google.golang.org/grpc/"
	lipgloss  = "charm.land/lipgloss/v2/"
	hclog     = "github.com/hashicorp/go-hclog"
	metrics   = "github.com/prometheus/client_golang/"
	model     = "github.com/prometheus/client_model/"
	otel      = "go.opentelemetry.io/otel/"
	otlp      = "go.opentelemetry.io/proto/otlp/"
	httpproxy = "golang.org/x/net/http/httpproxy"
	protobuf  = "google.golang.org/protobuf/"
	sys       = "golang.org/x/sys/"
	term      = "golang.org/x/term"
	websocket = "github.com/gobwas/ws/"

	licensecheck = "github.com/google/licensecheck"
	vulnscan     = "golang.org/x/vuln/scan"
)

// floors names everything a package may import besides the standard library, on every platform, tests apart. Imports
// point down: a package not listed here may not exist, so that adding one is a decision and not an accident.
var floors = map[string][]string{
	"internal/wire":     {websocket},
	"internal/wiretest": {websocket, otlp, protobuf, "internal/wire"},
	"internal/dialect":  {websocket, "internal/wire"},
	"internal/auth":     {},
	"internal/config":   {goyaml, "internal/dialect", "internal/files", "internal/redact"},
	"internal/files":    {},
	"internal/redact":   {},
	"internal/stats":    {},
	"internal/relay":    {websocket, sys, "internal/wire"},
	"internal/sim":      {websocket},
	"internal/trace":    {otel, otlp, protobuf},
	"internal/bench":    {websocket, "proto/", "client", "internal/dialect", "internal/sim", "internal/stats", "internal/wire"},
	"internal/unixsock": {sys, grpc + "credentials"},
	"pool":              {},
	"proto/rtd/v1":      {grpc, protobuf},
	"client":            {grpc, protobuf, "proto/", "internal/unixsock"},
	"daemon": {
		grpc, metrics, model, protobuf, hclog, sys, term, websocket, "proto/", "pool", "internal/auth", "internal/dialect", "internal/files", "internal/redact", "internal/relay",
		"internal/sim", "internal/stats", "internal/trace", "internal/unixsock", "internal/wire", httpproxy,
	},
	"cmd/rtd":           {hclog, "daemon", "internal/auth", "internal/config", "internal/dialect", "internal/files", "internal/redact", "internal/sim", "pool"},
	"cmd/rtctl":         {"cmd/rtctl/command"},
	"cmd/rtctl/command": {bubbletea, lipgloss, cobra, grpc, protobuf, term, "proto/", "client", "internal/bench", "internal/config", "internal/sim", "internal/unixsock"},
	"e2e":               {},
	"tools/licences":    {licensecheck},
	"tools/vulns":       {vulnscan},
}

// testOnly packages may be imported by tests and by nothing that ships.
const testOnly = "internal/wiretest"

func TestImportsPointDown(t *testing.T) {
	for dir, files := range packages(t) {
		allowed, ok := floors[dir]
		if !ok {
			t.Errorf("package %s has no floor: add it to floors in layout_test.go with what it may import", dir)
			continue
		}
		for _, file := range files {
			for _, spec := range file.syntax.Imports {
				name := strings.Trim(spec.Path.Value, `"`)
				if !permitted(name, allowed) {
					t.Errorf("%s imports %s, which is above its floor %q", file.name, name, allowed)
				}
			}
		}
	}
}

func TestFloorsNameExistingPackages(t *testing.T) {
	found := packages(t)
	for dir := range floors {
		if _, ok := found[dir]; !ok {
			t.Errorf("floors lists %s, which has no Go file", dir)
		}
	}
}

// permitted reports whether an import stands in a floor. Only standard library paths lack a dot in their first element.
func permitted(name string, allowed []string) bool {
	if own, ok := strings.CutPrefix(name, module); ok {
		return own != testOnly && slices.ContainsFunc(allowed, func(floor string) bool { return under(own, floor) })
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(allowed, func(floor string) bool { return under(name, floor) })
}

func under(name, floor string) bool {
	return name == strings.TrimSuffix(floor, "/") || strings.HasSuffix(floor, "/") && strings.HasPrefix(name, floor)
}

func TestPermitted(t *testing.T) {
	f := func(name string, allowed []string, want bool) {
		t.Helper()
		if got := permitted(name, allowed); got != want {
			t.Errorf("permitted(%q, %q) = %v", name, allowed, got)
		}
	}
	f("net/http", nil, true)
	f("github.com/gobwas/ws", []string{websocket}, true)
	f("github.com/gobwas/ws/wsutil", []string{websocket}, true)
	f("github.com/gobwas/wsother", []string{websocket}, false)
	f("google.golang.org/grpc/status", []string{grpc + "credentials"}, false)
	f(module+"pool", []string{"pool"}, true)
	f(module+"pool", []string{sys}, false)
	f(module+"proto/rtd/v1", []string{"proto/"}, true)
	f(module+testOnly, []string{testOnly}, false)
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	for dir, files := range packages(t) {
		var documented []string
		for _, file := range files {
			if file.syntax.Doc != nil {
				documented = append(documented, file.name)
				checkDoc(t, dir, file)
			}
		}
		if len(documented) != 1 {
			t.Errorf("package %s has its doc comment in %d files %q, want one that says what it guarantees and what its caller owes",
				dir, len(documented), documented)
		}
	}
}

func checkDoc(t *testing.T, dir string, file source) {
	t.Helper()
	opening := "Package " + file.syntax.Name.Name + " "
	if file.syntax.Name.Name == "main" {
		opening = "Command " + path.Base(dir) + " "
	}
	if text := file.syntax.Doc.Text(); !strings.HasPrefix(text, opening) {
		t.Errorf("the doc comment in %s does not begin with %q", file.name, opening)
	}
}

func TestMainFilesAreShort(t *testing.T) {
	const limit = 50
	for dir, files := range packages(t) {
		for _, file := range files {
			if path.Base(file.name) != "main.go" {
				continue
			}
			if lines := strings.Count(file.text, "\n"); lines >= limit {
				t.Errorf("%s in %s has %d lines, want fewer than %d: the work belongs in a package that tests can import", file.name, dir, lines, limit)
			}
		}
	}
}

// machinePath finds home and work directories of whoever wrote a file. It is put together so that it does not find itself.
var machinePath = regexp.MustCompile(`(^|[^\w./~-])/(` + strings.Join([]string{"work", "root", `home/\w+`, `Users/\w+`}, "|") + `)/`)

func TestNoFileNamesAMachinePath(t *testing.T) {
	walk(t, func(name string) {
		if strings.HasSuffix(name, ".pb.go") {
			return
		}
		for number, line := range strings.Split(read(t, name), "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d names a path of one machine: %s", name, number+1, strings.TrimSpace(line))
			}
		}
	})
}

func TestMachinePath(t *testing.T) {
	f := func(line string, want bool) {
		t.Helper()
		if got := machinePath.MatchString(line); got != want {
			t.Errorf("machinePath finds %q: %v", line, got)
		}
	}
	f("cd /"+"work/main", true)
	f(`dir := "/`+`root/x"`, true)
	f("/"+"home/ann/src", true)
	f("/run/rtd/rtd.sock", false)
	f("internal/"+"work/x", false)
	f("https://example.com/home/ann/", false)
}

// link finds what a Markdown file points at inside the tree.
var link = regexp.MustCompile(`\]\(([\w./-]+)(?:#[\w-]+)?\)`)

func TestDocumentationLinksLeadSomewhere(t *testing.T) {
	walk(t, func(name string) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, match := range link.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(match[1]))); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
		}
	})
}

type source struct {
	name, text string
	syntax     *ast.File
}

// packages parses the files that ship, by directory and for every platform at once: a build constraint hides none.
func packages(t *testing.T) map[string][]source {
	t.Helper()
	found := map[string][]source{}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		text := read(t, name)
		syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found[path.Dir(name)] = append(found[path.Dir(name)], source{name, text, syntax})
	})
	return found
}

// walk visits every file of the project with its slash-separated path; what git ignores is passed over.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	skip := ignored(t)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() && (entry.Name() == ".git" || slices.Contains(skip, "/"+name+"/")) {
			return fs.SkipDir
		}
		// In a worktree of git, .git is a file.
		if entry.Type().IsRegular() && entry.Name() != ".git" && !slices.Contains(skip, "/"+name) {
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignored returns the lines of .gitignore. They are compared and not matched, so that the tests need no git: that each
// is one path from the root, and a directory's ends in a slash, is held here.
func ignored(t *testing.T) []string {
	t.Helper()
	lines := strings.Fields(read(t, ".gitignore"))
	for _, line := range lines {
		if !strings.HasPrefix(line, "/") || strings.ContainsAny(line, "*?[!#\\") {
			t.Fatalf(".gitignore has %q, want one path from the root of the tree", line)
		}
	}
	return lines
}

func TestWalkPassesOverWhatGitIgnores(t *testing.T) {
	visited := map[string]bool{}
	walk(t, func(name string) { visited[name] = true })
	for _, name := range []string{"go.mod", ".ci/run", "pool/pool.go", "e2e/package.json"} {
		if !visited[name] {
			t.Errorf("%s is not visited", name)
		}
	}
	for name := range visited {
		for _, line := range ignored(t) {
			if under("/"+name, line) {
				t.Errorf("%s is visited, which .gitignore names", name)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
