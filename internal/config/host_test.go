package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// loadOnHost is loadText of what is named there too.
func loadOnHost(text string, environ ...string) (*Config, error) {
	return load(Options{Path: "rtd.yaml", Environ: environ, Host: true}, []byte(text))
}

// expectHostFaults is expectFaults on this host.
func expectHostFaults(t *testing.T, text string, environ []string, want ...string) {
	t.Helper()
	_, err := loadOnHost(text, environ...)
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nfor\n%s", got, strings.Join(want, "\n"), text)
	}
}

func TestSecretsAreReadWhereTheyAre(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("openai", "sk-test-CREDENTIAL\r\n")
	getenv := func(name string) string {
		return map[string]string{"KEY": "sk-test-ENV", credentialsDirectory: dir}[name]
	}
	f := func(s Secret, want string) {
		t.Helper()
		if got, err := s.Resolve(getenv); err != nil || got != want {
			t.Errorf("%+v: %q, %v, want %q", s, got, err, want)
		}
	}
	f(Secret{}, "")
	f(Secret{Env: "KEY"}, "sk-test-ENV")
	f(Secret{File: write("key", "sk-test-FILE\n")}, "sk-test-FILE")
	f(Secret{Credential: "openai"}, "sk-test-CREDENTIAL")

	g := func(s Secret, want string) {
		t.Helper()
		if got, err := s.Resolve(getenv); err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%+v: %q, %v, want an error with %q", s, got, err, want)
		}
	}
	g(Secret{Env: "NONE"}, "the environment variable NONE is not set")
	g(Secret{File: filepath.Join(dir, "none")}, "no such file")
	g(Secret{File: write("empty", "\n")}, "is empty")
	g(Secret{File: write("long", strings.Repeat("x", maxSecret+1))}, "longer than such a file may be, 64KiB")
	g(Secret{File: dir}, "is a directory")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	g(Secret{File: pipe}, "is not a regular file but a pipe")
	g(Secret{File: os.DevNull}, "is not a regular file")
	g(Secret{Credential: "none"}, "no such file")
	if _, err := (Secret{Credential: "openai"}).Resolve(func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "LoadCredential=openai") {
		t.Errorf("%v", err)
	}
}

// What is named is judged with all the rest, at its place; what a key has a fault for already is not looked for.
func TestAllFaultsOfTheHostAtOnce(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	dir := t.TempDir()
	good, other := ca.WritePair(dir, "good"), ca.WritePair(t.TempDir(), "other")
	empty := ca.Write(filepath.Join(dir, "empty.pem"), nil)
	text := `lisen: x
upstreams:
  - name: a
    provider: openai
    api_key_env: OPENAI_API_KEY
    tls:
      ca_file: ` + empty + `
      cert_file: ` + dir + `/none
      key_file: ` + empty + `
  - name: b
    provider: compatible
    url: wss://example.com/v1
    api_key_env: sk-test-SECRET1234
routes:
  - {models: [m], upstream: a}
clients:
  keys: [{name: a, key_file: ` + dir + `}, {name: b, key_env: A, key_file: /nonexistent}]
  tokens: {secret_file: ` + empty + `}
control: {group: no-such-group}
tls:
  cert_file: ` + good.Cert + `
  key_file: ` + other.Key + `
  client_ca_file: ` + os.DevNull + `
`
	expectHostFaults(t, text, nil,
		"rtd.yaml:1:1: lisen: there is no such key; did you mean listen?",
		"rtd.yaml:5:18: upstreams[0].api_key_env: the environment variable OPENAI_API_KEY is not set",
		"rtd.yaml:7:16: upstreams[0].tls.ca_file: "+empty+" holds no certificate in PEM; name a file that does",
		"rtd.yaml:8:18: upstreams[0].tls.cert_file: open "+dir+"/none: no such file or directory",
		"rtd.yaml:9:17: upstreams[0].tls.key_file: "+empty+" holds no private key in PEM; name a file that does",
		"rtd.yaml:13:18: upstreams[1].api_key_env: looks like the secret itself; give the name of the environment variable that holds it",
		"rtd.yaml:17:30: clients.keys[0].key_file: "+dir+" is a directory; name a file in it",
		fmt.Sprintf("rtd.yaml:17:%d: clients.keys[1].key_file: key_env names the same secret; keep one of them", 30+len(dir)+len("}, {name: b, key_env: A, key_file: ")),
		"rtd.yaml:18:25: clients.tokens.secret_file: "+empty+" is empty",
		`rtd.yaml:19:18: control.group: there is no group "no-such-group"; make it, or name another`,
		"rtd.yaml:22:13: tls.key_file: "+other.Key+" does not match the certificate in "+good.Cert+"; name the key that was made for it",
		"rtd.yaml:23:19: tls.client_ca_file: "+os.DevNull+" is not a regular file but a device; name a file",
	)
	// Nothing of it is looked at where it need not be.
	_, err := loadText(text)
	if n := len(AllFaults(err)); n != 3 {
		t.Errorf("%d faults: %v", n, err)
	}
}

// A key that is there twice, whichever way it is given, is a fault of the second.
func TestTheSameClientKeyTwice(t *testing.T) {
	sha := fmt.Sprintf("%x", sha256.Sum256([]byte("sk-test-SAME")))
	text := plain + "clients:\n  keys:\n    - {name: a, key_env: A}\n    - {name: b, key_env: B}\n    - {name: c, sha256: " + sha + "}\n    - {name: d, key_env: D}\n"
	expectHostFaults(t, text, []string{"OPENAI_API_KEY=sk-test-SET", "A=sk-test-SAME", "B=sk-test-SAME", "D=sk-test-OTHER"},
		"rtd.yaml:10:8: clients.keys[1]: is the same key as clients.keys[0]; remove one, or give it another",
		"rtd.yaml:11:8: clients.keys[2]: is the same key as clients.keys[0]; remove one, or give it another")
}

func TestACertificateWhoseTimeIsOver(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	pair := ca.WritePair(t.TempDir(), "old", wiretest.Expired)
	c, err := loadOnHost(plain+"tls:\n  cert_file: "+pair.Cert+"\n  key_file: "+pair.Key+"\n", "OPENAI_API_KEY=sk-test-SET")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Warnings.Error(); len(c.Warnings) != 1 || !strings.HasPrefix(got, "rtd.yaml:8:14: tls.cert_file: "+pair.Cert+": the certificate expired on ") {
		t.Errorf("%q", got)
	}
}

// Every bad secret of every key that names one, in each of the three places, yields one fault at its place that tells
// nothing of the secret.
func TestEveryBadSecretOfEveryKey(t *testing.T) {
	bad := map[string][]string{
		"upstreams[0].api_key": {"sk-test\x01SECRET", " sk-test-SECRET", "sk-test-SECRET\t", "sk-test\nSECRET", "sk-test-SECRET\u00a0", "SECRET\x7f"},
		"clients.keys[0].key": {
			"SECRET words", "SECRET\twords", " SECRET", "SECRET ", "SECRET\u00e9", "SECRET\xff", "SECRET\nSECRET", "SECRET\u200b", "SECRET\x00",
			"ek_rtd_SECRET", "EK_RTD_SECRET",
		},
		"clients.tokens.secret":   {"SECRET", strings.Repeat("S", 31)},
		"traces.headers[0].value": {"SECRET\x01words", " SECRET", "SECRET\t"},
	}
	dir := t.TempDir()
	f := func(prefix, secret, suffix, named string, environ ...string) {
		t.Helper()
		doc := everySection()
		doc[2].keys[0].items[0] = doc[2].keys[0].items[0][:1] // its key is put
		if prefix == "traces.headers[0].value" {
			doc[3].keys[1].items[0] = doc[3].keys[1].items[0][:1]
		} else {
			environ = append(environ, "KEY=sk-test-KEY")
		}
		if prefix != "clients.keys[0].key" {
			put(t, &doc, "clients.keys[0].sha256", strings.Repeat("0a", 32))
		}
		put(t, &doc, prefix+suffix, named)
		text, at := render(doc)
		_, err := loadOnHost(text, environ...)
		checkFault(t, prefix+suffix, fmt.Sprintf("%q", secret), text, at[prefix+suffix], AllFaults(err))
	}
	for prefix, secrets := range bad {
		for _, secret := range secrets {
			file := filepath.Join(dir, "secret")
			if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f(prefix, secret, "_env", "NAME", "NAME="+secret)
			f(prefix, secret, "_file", file)
			f(prefix, secret, "_credential", "secret", credentialsDirectory+"="+dir)
		}
	}
	for prefix, secret := range map[string]string{ // what is unusual, and good
		"upstreams[0].api_key": "two words \u00e9", "clients.keys[0].key": "!#$%&'()*+,-./:;<=>?@[]^_`{|}~ek_x", "clients.tokens.secret": strings.Repeat("\u00e9 ", 11),
	} {
		doc := everySection()
		put(t, &doc, "clients.keys[0].key_env", "KEY")
		put(t, &doc, prefix+"_env", "NAME")
		text, _ := render(doc)
		if _, err := loadOnHost(text, "NAME="+secret, "KEY=sk-test-KEY"); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

// A pipe, a socket or a device is refused at once wherever a configuration names a file.
func TestNoFileThatWouldBeWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, os.DevNull} {
		if _, err := Load(Options{Path: name}); err == nil || !strings.HasPrefix(err.Error(), name+" is not a regular file but a ") {
			t.Errorf("%v", err)
		}
	}
	f := oneOfEach()
	var paths []string
	walk(f.keys(), "", func(path string, k key) {
		if strings.HasSuffix(k.name, "_file") {
			paths = append(paths, path)
		}
	})
	doc := everySection()
	doc[2].keys[0].items[0] = doc[2].keys[0].items[0][:1] // its key is in a file
	doc[3].keys[1].items[0] = doc[3].keys[1].items[0][:1] // so is its value
	for _, path := range paths {
		put(t, &doc, path, pipe)
	}
	put(t, &doc, "control.listen", "127.0.0.1:0") // else its files are of no use
	text, at := render(doc)
	_, err := loadOnHost(text)
	faults := AllFaults(err)
	if len(faults) != len(paths) || len(paths) != 14 {
		t.Errorf("%d keys name a file, %d faults", len(paths), len(faults))
	}
	for _, path := range paths {
		want := fmt.Sprintf("rtd.yaml:%d:%d: %s: %s is not a regular file but a pipe; name a file", at[path][0], at[path][1], path, pipe)
		if !strings.Contains(faults.Error()+"\n", want+"\n") {
			t.Errorf("%v, want %s", faults, want)
		}
	}
}

// A key that came with the habits of an editor would be refused by the provider, which says less.
func TestAPIKeysThatNoHeaderCarries(t *testing.T) {
	f := func(key string, good bool) {
		t.Helper()
		if err := APIKey(key); (err == nil) != good || err != nil && strings.Contains(err.Error(), "sk-test") {
			t.Errorf("%q: %v", key, err)
		}
	}
	f("sk-test-KEY", true)
	f("two words", true)
	f("sk-test-K\u00c9Y", true)
	f("\ufeffsk-test-KEY", false)
	f("sk-test-KEY ", false)
	f("sk-test-KEY\nsk-test-OTHER", false)
	f("sk-test-KEY\x00", false)
}
