package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// pipeAt puts a pipe that nobody writes to under a name, at once.
func pipeAt(t *testing.T, name string) string {
	t.Helper()
	if err := syscall.Mkfifo(name+".new", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	return name
}

// everyFile is a configuration that names a file wherever it can, all in dir.
func everyFile(t *testing.T, up *wiretest.Upstream, dir string) (path string, ca *wiretest.Authority) {
	t.Helper()
	ca = wiretest.NewAuthority(t)
	for name, text := range map[string]string{"api": "sk-test-ONE", "web": "sk-test-web", "secret": strings.Repeat("s", 32)} {
		write(t, filepath.Join(dir, name), text+"\n")
	}
	ca.WritePair(dir, "gateway")
	ca.WriteCA(dir)
	path = filepath.Join(dir, "rtd.yaml")
	write(t, path, strings.ReplaceAll(fmt.Sprintf(`upstreams:
  - name: up
    provider: compatible
    url: %q
    api_key_file: DIR/api
    tls: {ca_file: DIR/ca.pem, cert_file: DIR/cert.pem, key_file: DIR/key.pem}
routes:
  - {models: [mock], pool: {size: 0}}
clients:
  keys: [{name: web, key_file: DIR/web}]
  tokens: {secret_file: DIR/secret}
tls: {cert_file: DIR/cert.pem, key_file: DIR/key.pem, client_ca_file: DIR/ca.pem}
control: {listen: "127.0.0.1:0", tls: {cert_file: DIR/cert.pem, key_file: DIR/key.pem, client_ca_file: DIR/ca.pem}}
`, up.URL()), "DIR", dir))
	return path, ca
}

// A pipe that nobody writes to, in the place of a file, ends a start at once. The reader of a pipe would wait for ever.
func TestAPipeEndsAStart(t *testing.T) {
	dir := t.TempDir()
	path, ca := everyFile(t, wiretest.NewUpstream(t, wiretest.Ready), dir)
	f := func(name string, args, env []string, want ...string) {
		t.Helper()
		file := filepath.Join(dir, name)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pipeAt(t, file)
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(append(os.Environ(), "RTD_TEST_MAIN=1"), env...)
		_, said := expect(t, cmd, 2)
		var lines []string
		for _, w := range want {
			lines = append(lines, "rtd: "+w+file+" is not a regular file but a pipe; name a file\n")
		}
		if said != strings.Join(lines, "") {
			t.Errorf("%s: rtd said\n%swant\n%s", name, said, strings.Join(lines, ""))
		}
		ca.Write(file, good)
	}
	byFlag := []string{"--config", path}
	f("rtd.yaml", byFlag, nil, "")
	f("rtd.yaml", nil, []string{"RTD_CONFIG=" + path}, "")
	at := func(place, key string) string { return path + ":" + place + ": " + key + ": " }
	column := func(before string) int { return len(strings.ReplaceAll(before, "DIR", dir)) + 1 }
	upstreamTLS, listenerTLS, controlTLS := "    tls: {ca_file: DIR/ca.pem, ", "tls: {", `control: {listen: "127.0.0.1:0", tls: {`
	certKey := "cert_file: DIR/cert.pem, key_file: "
	f("api", byFlag, nil, at("5:19", "upstreams[0].api_key_file"))
	f("web", byFlag, nil, at("10:32", "clients.keys[0].key_file"))
	f("secret", byFlag, nil, at("11:25", "clients.tokens.secret_file"))
	f("ca.pem", byFlag, nil, at("6:20", "upstreams[0].tls.ca_file"),
		at(fmt.Sprintf("12:%d", column(listenerTLS+certKey+"DIR/key.pem, client_ca_file: ")), "tls.client_ca_file"),
		at(fmt.Sprintf("13:%d", column(controlTLS+certKey+"DIR/key.pem, client_ca_file: ")), "control.tls.client_ca_file"))
	f("cert.pem", byFlag, nil, at(fmt.Sprintf("6:%d", column(upstreamTLS+"cert_file: ")), "upstreams[0].tls.cert_file"),
		at(fmt.Sprintf("12:%d", column(listenerTLS+"cert_file: ")), "tls.cert_file"),
		at(fmt.Sprintf("13:%d", column(controlTLS+"cert_file: ")), "control.tls.cert_file"))
	f("key.pem", byFlag, nil, at(fmt.Sprintf("6:%d", column(upstreamTLS+certKey)), "upstreams[0].tls.key_file"),
		at(fmt.Sprintf("12:%d", column(listenerTLS+certKey)), "tls.key_file"),
		at(fmt.Sprintf("13:%d", column(controlTLS+certKey)), "control.tls.key_file"))
}

// A reload that meets one is refused as fast, by signal and by rtctl, and what was in force goes on.
func TestAPipeRefusesAReload(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	dir := openDir(t)
	path, ca := everyFile(t, up, dir)
	agent := ca.WritePair(t.TempDir(), "agent")
	p := startProcess(t, nil, "--config", path)
	certificate, err := tls.LoadX509KeyPair(agent.Cert, agent.Key)
	if err != nil {
		t.Fatal(err)
	}
	session := func(key string) {
		t.Helper()
		conn, err := tls.Dial("tcp", p.listen, &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{certificate}})
		if err != nil {
			t.Fatal(err)
		}
		c := wiretest.NewClient(t, conn)
		c.SendString(wiretest.HSWith("", "Authorization: Bearer "+key))
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
	}
	session("sk-test-web")
	lines := 0
	for _, name := range []string{"rtd.yaml", "api", "web", "secret", "ca.pem", "cert.pem", "key.pem"} {
		file := filepath.Join(dir, name)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pipeAt(t, file)
		p.signal(syscall.SIGHUP)
		lines += 2 // one for the signal, one for rtctl
		if strings.HasSuffix(name, ".pem") {
			lines += 4 // three sections name it
		}
		_, said := expect(t, p.rtctl("reload"), 1)
		if !strings.Contains(said, file+" is not a regular file but a pipe") {
			t.Errorf("%s: rtctl said %s", name, said)
		}
		p.awaitLog(saysRefused, lines)
		session("sk-test-web")
		ca.Write(file, good)
	}
	write(t, filepath.Join(dir, "web"), "sk-test-next\n")
	expect(t, p.rtctl("reload"), 0)
	session("sk-test-next")
}

// A certificate whose time is over is said where it is named, by rtd and by rtctl, and serves: the clock may be wrong.
func TestAnExpiredCertificateIsAWarning(t *testing.T) {
	dir := openDir(t)
	path, ca := everyFile(t, wiretest.NewUpstream(t, wiretest.Ready), dir)
	ca.ReplacePair(wiretest.KeyPair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}, "old", wiretest.Expired)
	warning := fmt.Sprintf("%s:12:18: tls.cert_file: %s/cert.pem: the certificate expired on ", path, dir)
	p := startProcess(t, nil, "--config", path)
	p.awaitLog(warning, 1)
	expect(t, p.rtctl("reload"), 0)
	p.awaitLog(warning, 2)
	said, _ := expect(t, p.rtctl("config", "check", "--secrets", path), 0)
	if !strings.Contains(said, warning) || !strings.HasSuffix(said, "\n"+path+": ok\n") {
		t.Errorf("rtctl said %s", said)
	}
	if said, _ := expect(t, p.rtctl("config", "check", path), 0); said != path+": ok\n" {
		t.Errorf("rtctl said %s", said)
	}
}
