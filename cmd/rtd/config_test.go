package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// keyedUpstream is a scripted upstream that knows how many connections are open with which credential.
type keyedUpstream struct {
	*wiretest.Upstream
	t    *testing.T
	mu   sync.Mutex
	open map[string]int
}

func newKeyedUpstream(t *testing.T) *keyedUpstream {
	u := &keyedUpstream{t: t, open: map[string]int{}}
	u.Upstream = wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Timeout = time.Minute
		req := c.ReadRequest()
		key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		u.count(key, 1)
		defer u.count(key, -1)
		if c.TrySend([]byte(wiretest.Switching(req)+string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))) == nil {
			c.Echo()
		}
	})
	return u
}

func (u *keyedUpstream) count(key string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[key] += n
}

// expect waits until so many connections are open with a key.
func (u *keyedUpstream) expect(within time.Duration, key string, want int) {
	u.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		u.mu.Lock()
		got := u.open[key]
		u.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("after %v the upstream has %d open with %s, want %d", within, got, key, want)
		}
	}
}

// configFile is a file with one route to up, whose key is in the file of the second path.
func configFile(t *testing.T, up *wiretest.Upstream) (path, keyPath string) {
	t.Helper()
	dir := t.TempDir()
	path, keyPath = filepath.Join(dir, "rtd.yaml"), filepath.Join(dir, "key")
	write(t, keyPath, "sk-test-ONE\n")
	write(t, path, fmt.Sprintf(`upstreams:
  - {name: up, provider: compatible, url: "%s", api_key_file: %s}
routes:
  - models: [mock]
    pool: {size: 3}
`, up.URL(), keyPath))
	return path, keyPath
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), from) {
		t.Fatalf("%s does not hold %q", path, from)
	}
	write(t, path, strings.Replace(string(b), from, to, 1))
}

// awaitLog waits until the log holds text n times.
func (p *process) awaitLog(text string, n int) {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); strings.Count(p.output(), text) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("the log does not say %q %d times:\n%s", text, n, p.output())
		}
	}
}

const (
	saysReloaded = `"@message":"reloaded"`
	saysRefused  = `"@message":"reload refused, the configuration stays as it was"`
)

// The whole of it with a real process: a key in a file, a new one in its place, SIGHUP.
func TestCaseA6AHangupPutsANewKeyInForce(t *testing.T) {
	up := newKeyedUpstream(t)
	path, keyPath := configFile(t, up.Upstream)
	p := startProcess(t, nil, "--config", path)
	up.expect(5*time.Second, "sk-test-ONE", 3)
	active := wiretest.Connect(t, p.listen)
	active.ExpectText(wiretest.SessionCreated)
	up.expect(5*time.Second, "sk-test-ONE", 4)

	write(t, keyPath, "sk-test-TWO\n")
	p.signal(syscall.SIGHUP)
	up.expect(2*time.Second, "sk-test-TWO", 3)
	up.expect(2*time.Second, "sk-test-ONE", 1)
	active.SendHex(wiretest.Hello)
	active.ExpectText("Hello")
	p.awaitLog(saysReloaded, 1)
	if strings.Contains(p.output(), "sk-test-") {
		t.Error("the log holds a key")
	}
}

func TestABadFileChangesNothingAndTheNextGoodOneDoes(t *testing.T) {
	up := newKeyedUpstream(t)
	path, _ := configFile(t, up.Upstream)
	p := startProcess(t, nil, "--config", path)
	up.expect(5*time.Second, "sk-test-ONE", 3)

	edit(t, path, "size: 3", "sze: 2, max_age: 5")
	p.signal(syscall.SIGHUP)
	p.awaitLog(saysRefused, 2)
	for _, fault := range []string{"rtd.yaml:5:12: routes[0].pool.sze: there is no such key; did you mean size?", `rtd.yaml:5:29: routes[0].pool.max_age: \"5\" has no unit`} {
		if !strings.Contains(p.output(), fault) {
			t.Errorf("the log does not hold %s:\n%s", fault, p.output())
		}
	}
	edit(t, path, "sze: 2, max_age: 5", "size: 2")
	p.signal(syscall.SIGHUP)
	p.awaitLog(saysReloaded, 1)
	up.expect(5*time.Second, "sk-test-ONE", 2)

	edit(t, path, "routes:", "relay: {pollers: 7}\nroutes:")
	p.signal(syscall.SIGHUP)
	p.awaitLog("relay.pollers: cannot change while rtd runs; restart it", 1)
	c := wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
}

func TestAHangupBeforeReadyDoesNotEndIt(t *testing.T) {
	up := newKeyedUpstream(t)
	path, _ := configFile(t, up.Upstream)
	p := startProcess(t, nil, "--config", path)
	for range 20 {
		p.signal(syscall.SIGHUP)
	}
	p.awaitLog(saysReloaded, 1)
	up.expect(5*time.Second, "sk-test-ONE", 3)
}

func TestTheFileOfTheEnvironment(t *testing.T) {
	up := newKeyedUpstream(t)
	path, _ := configFile(t, up.Upstream)
	p := startProcess(t, []string{"RTD_CONFIG=" + path, "RTD_ROUTES_0_POOL_SIZE=1", "OPENAI_API_KEY=sk-test-OTHER", "HOST=0.0.0.0"})
	up.expect(5*time.Second, "sk-test-ONE", 1)
	c := wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
}

func TestAWrongFileIsExit2WithALineForEachFault(t *testing.T) {
	dir := t.TempDir()
	f := func(text string, env []string, want ...string) {
		t.Helper()
		path := filepath.Join(dir, "rtd.yaml")
		write(t, path, text)
		cmd := exec.Command(os.Args[0], "--config", path)
		cmd.Env = append(append(os.Environ(), "RTD_TEST_MAIN=1"), env...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%q: %v, want exit 2", text, err)
		}
		got := strings.ReplaceAll(string(out), dir+"/", "")
		if got != strings.Join(want, "\n")+"\n" {
			t.Errorf("%q said\n%swant\n%s", text, got, strings.Join(want, "\n"))
		}
	}
	const upstream = "upstreams: [{name: up, provider: compatible, url: wss://x/v1, api_key_env: RTD_TEST_KEY}]\nroutes: [{models: [m]}]\n"
	f("lisen: x\n"+upstream, nil, "rtd: rtd.yaml:1:1: lisen: there is no such key; did you mean listen?",
		"rtd: rtd.yaml:2:76: upstreams[0].api_key_env: the environment variable RTD_TEST_KEY is not set")
	f(upstream, nil, "rtd: rtd.yaml:1:76: upstreams[0].api_key_env: the environment variable RTD_TEST_KEY is not set")
	f(upstream+"clients: {keys: [{name: a, key_credential: c}]}\ncontrol: {group: no-such-group}\n", []string{"RTD_TEST_KEY=sk-test-X", "CREDENTIALS_DIRECTORY=" + dir},
		"rtd: rtd.yaml:3:44: clients.keys[0].key_credential: open c: no such file or directory",
		`rtd: rtd.yaml:4:18: control.group: there is no group "no-such-group"; make it, or name another`)
}

// I3: a credentialed ws:// upstream that is not loopback is refused before anything is dialled, unless opted in.
func TestCaseI3AKeyDoesNotCrossPlaintext(t *testing.T) {
	f := func(keys, want string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "rtd.yaml")
		write(t, path, "upstreams: [{name: up, provider: compatible, url: ws://192.0.2.1/v1, api_key_env: KEY"+keys+"}]\nroutes: [{models: [m]}]\n")
		o, err := parseOptions([]string{"--config", path}, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("KEY", "sk-test-PLAIN")
		_, err = readConfig(o, &watchedFiles{}, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("", "upstreams[0].url: the API key would cross the network in clear")
	f(", allow_plaintext: true", "")
}

func TestASecretThatChangesOnDisk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	write(t, name, "one")
	w := &watchedFiles{}
	accept := func() {
		files := sums{}
		files.add(name)
		w.accept(nil, files)
	}
	accept()
	f := func(want bool) {
		t.Helper()
		if got := w.due(); got != want {
			t.Errorf("due is %v, want %v", got, want)
		}
	}
	f(false)
	write(t, name, "two")
	f(true)
	accept()
	f(false)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	f(false) // it is being replaced
	write(t, name, "two")
	f(false)
	write(t, name, "three")
	for _, due := range []bool{true, true, false, true, false, false, false, true, false} { // nothing accepts it
		f(due)
	}
	write(t, name, "four")
	f(true)
	f(true)
	write(t, name, "two")
	f(false)
	write(t, name, "four")
	f(true)
	for last, i := 0, 0; i < 200; i++ {
		if w.due() {
			last = i
		} else if i-last > maxPause {
			t.Fatalf("not due for %d looks", i-last)
		}
	}
}

// A new secret is put in force whatever the configuration's file has become since, and what has become of it is not.
func TestASecretIsRotatedUnderAFileThatIsBeingEdited(t *testing.T) {
	up := newKeyedUpstream(t)
	path, keyPath := configFile(t, up.Upstream)
	edit(t, path, "upstreams:", "listen: [\"127.0.0.1:0\"]\nadmin: 127.0.0.1:0\nlog: {level: error}\ncontrol: {socket: "+filepath.Dir(path)+"/s}\nupstreams:")
	d, files, release, err := prepare(options{path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-d.Ready()
	go reloadOnChange(ctx, d, files, 5*time.Millisecond)
	rotate := func(from, to string) {
		t.Helper()
		up.expect(5*time.Second, from, 3)
		write(t, keyPath+".new", to)
		if err := os.Rename(keyPath+".new", keyPath); err != nil {
			t.Fatal(err)
		}
		up.expect(5*time.Second, to, 3)
		up.expect(5*time.Second, from, 0)
	}
	edit(t, path, "size: 3", "size: 5")
	rotate("sk-test-ONE", "sk-test-TWO")
	edit(t, path, "size: 5", "sze: 5")
	rotate("sk-test-TWO", "sk-test-THREE")

	other := filepath.Join(filepath.Dir(path), "other")
	write(t, other, "sk-test-OTHER")
	edit(t, path, "sze: 5", "size: 5")
	edit(t, path, keyPath, other)
	edit(t, path, "routes:", "relay: {pollers: 7}\nroutes:")
	if _, err := d.ReloadFromSource(); !errors.Is(err, daemon.ErrFixed) {
		t.Errorf("%v, want it refused", err)
	}
	rotate("sk-test-THREE", "sk-test-FOUR") // the key in force is watched, not the one that was refused

	edit(t, path, "relay: {pollers: 7}\n", "")
	if _, err := d.ReloadFromSource(); err != nil {
		t.Fatal(err)
	}
	up.expect(5*time.Second, "sk-test-OTHER", 5)
}
