package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

func TestIdentify(t *testing.T) {
	f := func(name, text string, want ...string) {
		t.Helper()
		if got := identify(name, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("identify(%s, %.30q…) = %q, want %q", name, text, got, want)
		}
	}
	f("LICENSE", ours(t), "Apache-2.0")
	f("LICENSE", ours(t)+"\n\n"+canonical(t, "ISC"), "Apache-2.0", "ISC")
	f("COPYING", canonical(t, "GPL-3.0"), "GPL-3.0")
	f("LICENSE", "Ask the author.", unknown)
	f("LICENSE", "See https://opensource.org/licenses/MIT for what you may do.", unknown)
	f("NOTICE", "This product includes software of its authors.")
	f("PATENTS", "A grant of patents.")
}

func TestIsLegal(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if got := isLegal(name); got != want {
			t.Errorf("isLegal(%q) = %v", name, got)
		}
	}
	f("LICENSE", true)
	f("License.md", true)
	f("LICENCE-MIT.txt", true)
	f("COPYING", true)
	f("NOTICE.txt", true)
	f("license.go", false)
	f("README.md", false)
}

func TestRefused(t *testing.T) {
	f := func(want string, files ...file) {
		t.Helper()
		err := refused([]built{{path: "example.test/m", version: "v1.0.0", files: files}})
		if want == "" {
			if err != nil {
				t.Errorf("%v is refused: %v", files, err)
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gave %v, want an error with %q", files, err, want)
		}
	}
	f("", file{"LICENSE", []string{"MIT"}}, file{"NOTICE", nil})
	f("example.test/m v1.0.0 has no licence")
	f("has no licence", file{"NOTICE", nil})
	f("example.test/m v1.0.0: LICENSE is under GPL-3.0", file{"LICENSE", []string{"GPL-3.0"}})
	f("x/COPYING is under unknown", file{"LICENSE", []string{"MIT"}}, file{"x/COPYING", []string{unknown}})
}

func TestTextsAreFoundUpToTheModulesRoot(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("LICENSE", ours(t))
	write("copied/COPYING", canonical(t, "ISC"))
	write("copied/deep/code.go", "package deep")
	write("aside/LICENSE", canonical(t, "GPL-3.0"))

	module := built{path: "example.test/m"}
	for _, dir := range []string{"copied/deep", "copied", ".", "copied"} {
		if err := module.texts(root, dir); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := module.licences(), []string{"Apache-2.0", "ISC"}; !slices.Equal(got, want) || len(module.files) != 2 {
		t.Errorf("found %q in %v, want %q in two files", got, module.files, want)
	}
}

func TestStale(t *testing.T) {
	if err := stale("list.md", "a\nb\n", "a\nb\n"); err != nil {
		t.Error(err)
	}
	f := func(committed, want, line string) {
		t.Helper()
		if err := stale("list.md", committed, want); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("stale(%q, %q) = %v, want %q", committed, want, err, line)
		}
	}
	f("a\nb\n", "a\nc\n", `line 2 is "b", the modules give "c"`)
	f("a\n", "a\nc\n", "line 2")
	f("", "a\n", "line 1")
}

// The list of this very tree is checked by `make check`; here it has to name what is known to be in both programs.
func TestModulesOfTheTree(t *testing.T) {
	all, err := modules("../..")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(b built) bool { return b.path == "google.golang.org/grpc" })
	if i < 0 || !slices.Equal(all[i].programs, programs) || !slices.Equal(all[i].licences(), []string{"Apache-2.0"}) {
		t.Errorf("grpc is not listed under Apache-2.0 in both programs: %+v", all)
	}
}

// ours is the project's own licence.
func ours(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// canonical returns the words of a licence without its placeholders for names and years.
func canonical(t *testing.T, id string) string {
	t.Helper()
	for _, licence := range licensecheck.BuiltinLicenses() {
		if licence.ID == id && licence.LRE != "" {
			return strings.NewReplacer("//**", "", "**//", "", "((", "", "))", "", "__", "x").Replace(licence.LRE)
		}
	}
	t.Fatalf("no words of %s", id)
	return ""
}
