package unixsock

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDefaultPaths(t *testing.T) {
	open := t.TempDir()
	f := func(run, xdg string, want ...string) {
		t.Helper()
		runDir = run
		t.Setenv("XDG_RUNTIME_DIR", xdg)
		want = append(want, "/tmp/rtd-"+uid()+"/rtd.sock")
		if os.Geteuid() == 0 && run != open {
			want = slices.Insert(want, 0, run+"/rtd.sock") // root may make it
		}
		if got := DefaultPaths(); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	defer func(old string) { runDir = old }(runDir)
	f("/nonexistent/rtd", "")
	f("/nonexistent/rtd", "relative/is/ignored")
	f("/nonexistent/rtd", "/run/user/1", "/run/user/1/rtd/rtd.sock")
	f(open, "/run/user/1", open+"/rtd.sock", "/run/user/1/rtd/rtd.sock")
}

func TestDefaultAndFindSocket(t *testing.T) {
	defer func(old string) { runDir = old }(runDir)
	runDir = "/nonexistent/rtd"
	xdg := sharedDir(t)
	t.Setenv("XDG_RUNTIME_DIR", xdg)
	t.Setenv(EnvSocket, "")
	want := filepath.Join(xdg, "rtd", "rtd.sock")
	f := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: got %s, want %s", name, got, want)
		}
	}
	find := func() string {
		t.Helper()
		path, err := FindSocket()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	f("listen", DefaultSocket(), want)
	f("find nothing", find(), want)
	mustListen(t, want, Options{})
	f("find", find(), want)
	if err := os.Chmod(filepath.Dir(want), 0o777); err != nil {
		t.Fatal(err)
	}
	if path, err := FindSocket(); !errors.Is(err, ErrUnsafeDir) {
		t.Fatalf("in a directory open to all: got %q, %v", path, err)
	}
	t.Setenv(EnvSocket, "/elsewhere/rtd.sock")
	f("listen by environment", DefaultSocket(), "/elsewhere/rtd.sock")
	f("find by environment", find(), "/elsewhere/rtd.sock")
}

// Who may not enter /run/rtd is to read that, and not that there is no daemon.
func TestFindSocketNamesTheOneThatIsShut(t *testing.T) {
	defer func(old string) { runDir = old }(runDir)
	runDir = filepath.Join(sharedDir(t), "rtd")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv(EnvSocket, "")
	if err := os.WriteFile(runDir, nil, 0o600); err != nil { // root may enter any directory, but no file
		t.Fatal(err)
	}
	if path, err := FindSocket(); err != nil || path != filepath.Join(runDir, "rtd.sock") {
		t.Errorf("got %q, %v", path, err)
	}
}

func TestDefaultOptions(t *testing.T) {
	if got := groupOptions("no-such-group-here"); got != (Options{Mode: 0o600}) {
		t.Fatalf("without the group: %+v", got)
	}
	if os.Geteuid() == 0 {
		if got := groupOptions("daemon"); got.Mode != 0o660 || got.GID == 0 {
			t.Fatalf("with the group: %+v", got)
		}
	}
}
