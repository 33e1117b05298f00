package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	goMod = "module example.test/m\n\ngo 1.26.0\n"
	code  = "package m\n\nimport \"strings\"\n\nfunc F() string { return strings.ToUpper(\"f\") }\n"
	// entry says that strings.ToUpper is vulnerable in every release of Go.
	entry = `{"schema_version":"1.3.1","id":"GO-2000-0001","modified":"2000-01-01T00:00:00Z","summary":"a letter grows",
"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"strings","symbols":["ToUpper"]}]}}],
"database_specific":{"url":"https://example.test/GO-2000-0001","review_status":"REVIEWED"}}`
	modules = `[{"path":"stdlib","vulns":[{"id":"GO-2000-0001","modified":"2000-01-01T00:00:00Z"}]}]`
	version = `{"modified":"2000-01-01T00:00:00Z"}`
)

func TestFindingFails(t *testing.T) {
	out, err := scanned(t, database(t, modules), code)
	if err == nil || !strings.Contains(out, "GO-2000-0001") || strings.Contains(out, "SKIPPED") {
		t.Errorf("a reached vulnerability gave error %v and:\n%s", err, out)
	}
}

func TestCleanModulePasses(t *testing.T) {
	out, err := scanned(t, database(t, `[]`), code)
	if err != nil || strings.Contains(out, "SKIPPED") {
		t.Errorf("a module without vulnerabilities gave error %v and:\n%s", err, out)
	}
}

func TestNoDatabaseIsSaid(t *testing.T) {
	// The index is announced, and then the database refuses to give it.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			http.Error(w, "gone", http.StatusForbidden)
		}
	}))
	defer server.Close()
	out, err := scanned(t, server.URL, code)
	if err != nil || !strings.Contains(out, "SKIPPED: nothing was looked up") {
		t.Errorf("a database that does not answer gave error %v and:\n%s", err, out)
	}
}

func TestBrokenModuleFails(t *testing.T) {
	out, err := scanned(t, database(t, modules), "package m\n\nimport \"no.such/package\"\n")
	if err == nil || strings.Contains(out, "SKIPPED") {
		t.Errorf("a module that does not build gave error %v and:\n%s", err, out)
	}
}

func TestWrongDatabaseFails(t *testing.T) {
	out, err := scanned(t, "file://"+filepath.ToSlash(filepath.Join(t.TempDir(), "none")), code)
	if err == nil || strings.Contains(out, "SKIPPED") {
		t.Errorf("a database that is not there gave error %v and:\n%s", err, out)
	}
}

func scanned(t *testing.T, database, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), goMod)
	write(t, filepath.Join(dir, "m.go"), source)
	var out bytes.Buffer
	err := check(t.Context(), &out, database, dir)
	return out.String(), err
}

// database lays out a local database in the documented form and returns its URL.
func database(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "index", "db.json"), version)
	write(t, filepath.Join(dir, "index", "modules.json"), modules)
	write(t, filepath.Join(dir, "ID", "GO-2000-0001.json"), entry)
	return "file://" + filepath.ToSlash(dir)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
