package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// serveAs is serve with a name for the socket.
func serveAs(t *testing.T, name string, f *fake) *fake {
	t.Helper()
	f.name = name + ".sock"
	return serve(t, f)
}

// goldenOf is golden for several daemons: a word such as @a in a command line is --endpoint and the socket of a.
func goldenOf(t *testing.T, file string, sockets map[string]string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(want)) {
		line, ok := strings.CutPrefix(line, "$ rtctl ")
		if !ok {
			continue
		}
		full := strings.TrimSpace(line)
		for name, socket := range sockets {
			full = strings.ReplaceAll(full, "@"+name, "--endpoint "+socket)
		}
		out := run(full, "SOCKET")
		for name, socket := range sockets {
			out = strings.ReplaceAll(strings.ReplaceAll(out, "--endpoint "+socket, "@"+name), socket, strings.ToUpper(name)+".SOCK")
		}
		got = append(got, out)
	}
	all := strings.Join(got, "\n")
	if *update {
		if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if all != string(want) || len(got) == 0 {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", path, all)
	}
}

// twoDaemons are a, which is well, b, which is not, and one that is down.
func twoDaemons(t *testing.T) map[string]string {
	t.Helper()
	a, b := newFake(warmPool()), newFake(failingPool(), warmPool())
	b.sessions = []*rtdv1.Session{newSessionMessage("s-9", "compatible/local")}
	b.info = proto.CloneOf(b.info)
	b.info.Ready, b.info.NotReadyReason, b.info.Sessions, b.info.Warm = false, "0 of 4 sessions warm", 1, 0
	return map[string]string{
		"a": serveAs(t, "a", a).socket, "b": serveAs(t, "b", b).socket, "down": filepath.Join(t.TempDir(), "down.sock"),
	}
}

func TestScreensOfSeveralDaemons(t *testing.T) {
	goldenOf(t, "several.txt", twoDaemons(t))
}

func TestDocumentsOfSeveralDaemons(t *testing.T) {
	goldenOf(t, "several-json.txt", twoDaemons(t))
}

func TestVerbsAtSeveralDaemons(t *testing.T) {
	goldenOf(t, "several-verbs.txt", twoDaemons(t))
}

func TestNamesOfDaemons(t *testing.T) {
	f := func(want string, endpoints ...string) {
		t.Helper()
		parts, err := newParts(endpoints)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range parts {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q are called %q, want %q", endpoints, got, want)
		}
	}
	f("rtd 10.0.0.7:4003", "/run/rtd/rtd.sock", "tcp://10.0.0.7:4003")
	f("rtd-blue rtd-green", "/run/rtd-blue/rtd.sock", "unix:///run/rtd-green/rtd.sock")
	f("a b", "/tmp/x/a.sock", "unix:/tmp/x/b.sock")
	f("/run/rtd/rtd.sock /srv/rtd/rtd.sock c", "/run/rtd/rtd.sock", "/srv/rtd/rtd.sock", "/tmp/c")
	f("rtd other", "rtd.sock", "other")
	socket := filepath.Join(t.TempDir(), "s")
	link := filepath.Join(t.TempDir(), "l")
	if err := errors.Join(os.WriteFile(socket, nil, 0o600), os.Symlink(socket, link)); err != nil {
		t.Fatal(err)
	}
	around := filepath.Dir(socket) + "/./s"
	for _, no := range [][]string{{"/a", "unix:///a"}, {"tcp://h:1", "tcp://h:1"}, {socket, around}, {"unix://" + link, "/b", socket}, {"/a", ""}} {
		if _, err := newParts(no); err == nil {
			t.Errorf("%q are as many daemons", no)
		}
	}
}

// Every command says what several daemons mean to it, and there are no others.
func TestEveryCommandHasAScope(t *testing.T) {
	known := map[string]bool{}
	walk(newRoot(&app{format: formatTable}), func(cmd *cobra.Command) {
		name := commandName(cmd)
		known[name] = true
		asks := scopes[name] != noDaemon
		alone := cmd.HasSubCommands() || slices.Contains([]string{"config check", "config schema", "schema", "sim", "bench connect", "bench peers", "completion", "help"}, name)
		if asks == alone {
			t.Errorf("%s asks a daemon: %t", name, asks)
		}
	})
	for name := range scopes {
		if !known[name] {
			t.Errorf("there is no command %q", name)
		}
	}
}

// heard is a writer whose reader leaves once it has heard enough.
type heard struct {
	mu     sync.Mutex
	text   bytes.Buffer
	enough func() bool
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	h.text.Write(p)
	h.mu.Unlock()
	if h.enough != nil && h.enough() {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// A watch of several interleaves their lines, each with its daemon; one that is not there takes nothing from the others.
func TestWatchesOfSeveralDaemons(t *testing.T) {
	sockets := twoDaemons(t)
	f := func(lead string, args ...string) {
		t.Helper()
		stdout, stderr := &heard{}, &heard{}
		stdout.enough = func() bool {
			out := stdout.String()
			return strings.Count(out, lead+"a") > 1 && strings.Count(out, lead+"b") > 1 && stderr.String() != ""
		}
		for _, name := range []string{"a", "down", "b"} {
			args = append(args, "--endpoint", sockets[name])
		}
		status := execute(t.Context(), args, stdout, stderr)
		if status != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.HasPrefix(stderr.String(), "rtctl: down: no rtd at ") {
			t.Errorf("%q: status %d, stderr %q", args, status, stderr)
		}
		for line := range strings.Lines(stdout.String()) {
			if strings.HasPrefix(lead, "{") && !json.Valid([]byte(line)) {
				t.Errorf("no document: %s", line)
			}
		}
	}
	f(`{"daemon":"`, "stats", "--watch", "--interval", "100ms", "-o", "json")
	f(`daemon: "`, "stats", "--watch", "--interval", "100ms", "-o", "yaml")
	f("\n", "stats", "--watch", "--interval", "100ms")
}

func TestEventsOfSeveralDaemons(t *testing.T) {
	sockets := twoDaemons(t)
	f := func(form string, want ...string) {
		t.Helper()
		stdout := &heard{}
		stdout.enough = func() bool {
			for _, w := range want {
				if !strings.Contains(stdout.String(), w) {
					return false
				}
			}
			return true
		}
		if status := execute(t.Context(), []string{"session", "watch", "--endpoint", sockets["a"], "--endpoint", sockets["b"], "-o", form}, stdout, io.Discard); status != 0 {
			t.Errorf("status %d", status)
		}
	}
	f("json", `{"daemon":"a","time":`, `{"daemon":"b","time":`)
	f("table", "\nb  ", "a  ")
}
