package daemon

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	files := ca.WritePair(t.TempDir(), "first")
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(files))
	shown := func(want string) {
		t.Helper()
		conn, err := r.handshake(clientTLS(ca))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := presented(conn); got != want {
			t.Errorf("presented %q, want %q", got, want)
		}
	}
	const failure, success = "certificate files changed and cannot be used", "certificate files read again"
	live, _ := r.secure(clientTLS(ca))
	ca.ReplacePair(files, "second")
	r.look()
	shown("second")
	if r.lines(success, "CN=second") != 1 {
		t.Error("the log does not say that the certificate was read")
	}

	good, err := os.ReadFile(files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca.Write(files.Key, []byte("-----BEGIN PRIVATE KEY-----\nsk-test-key\n"))
	for range 3 {
		r.look()
		shown("second")
	}
	if n := r.lines(failure, files.Key); n != 1 {
		t.Errorf("%d lines about a key that cannot be used, want 1", n)
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.look()
		shown("second")
	}
	if n := r.lines(failure, "no such file"); n != 1 {
		t.Errorf("%d lines about a missing key, want 1", n)
	}
	ca.Write(files.Key, good)
	r.look()
	shown("second")
	ca.ReplacePair(files, "third")
	r.look()
	shown("third")
	if n := r.lines(success); n != 3 {
		t.Errorf("%d lines about a certificate, want 3", n)
	}
	ca.ReplacePair(files, "old", wiretest.Expired)
	r.look()
	conn, err := r.handshake(clientTLS(ca, func(c *tls.Config) { c.InsecureSkipVerify = true }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if presented(conn) != "old" || r.lines(`"warn"`, success+", and the certificate expired on") != 1 {
		t.Errorf("presented %q, and the log does not warn that its time is over", presented(conn))
	}
	echoesHello(live)
}

// TestCertificateFilesAreLookedAtOncePerSecond: the next handshake does not touch the disk.
func TestCertificateFilesAreLookedAtOncePerSecond(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	files := ca.WritePair(t.TempDir(), "first")
	reads := 0
	f, err := newFromFiles(func() (int, error) { reads++; return reads, nil }, func(int, error) {}, files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, f.next.Load()) // the first look
	get := func(want int) {
		t.Helper()
		if got := f.get(now); got != want {
			t.Errorf("got read %d, want %d", got, want)
		}
	}
	get(1)
	ca.ReplacePair(files, "second")
	get(1)
	now = now.Add(filesInterval - 1)
	get(1)
	now = now.Add(1)
	get(2)
	now = now.Add(filesInterval)
	get(2) // nothing changed
	if allocs := testing.AllocsPerRun(100, func() { f.get(now) }); allocs > 0 && !raceEnabled {
		t.Errorf("%v allocations for a look at nothing", allocs)
	}
}

func TestReloadOfTLS(t *testing.T) {
	ca, clients := wiretest.NewAuthority(t), wiretest.NewAuthority(t)
	dir := t.TempDir()
	files := ca.WritePair(dir, "first")
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(files))
	config := clientTLS(ca, func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(1) })
	live, _ := r.secure(config)
	reload := func(want string, change func(*Config)) {
		t.Helper()
		cfg := r.current().cfg
		change(&cfg)
		_, err := r.Reload(cfg)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	same := func(*Config) {}
	reload("", same)
	if _, conn := r.secure(config); !conn.ConnectionState().DidResume {
		t.Error("a reload that changed nothing forgot the tickets")
	}
	ca.ReplacePair(files, "second")
	reload("", same) // without waiting for the next look
	if _, conn := r.secure(config); presented(conn) != "second" {
		t.Errorf("presented %q after a reload", presented(conn))
	}
	ca.Write(files.Cert, []byte("nothing\n"))
	reload("tls.cert_file: "+files.Cert, same)
	reload("tls.cert_file: "+files.Cert, same) // still
	if _, conn := r.secure(config); presented(conn) != "second" {
		t.Errorf("presented %q after a reload that failed", presented(conn))
	}
	ca.ReplacePair(files, "third")
	reload("", func(c *Config) { c.TLS.ClientCAFile = clients.WriteCA(dir) })
	if conn, err := r.handshake(config); err == nil { // a ticket is not a certificate
		if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("%v, want a certificate to be asked for", err)
		}
		conn.Close()
	}
	reload("", func(c *Config) { c.TLS = TLS{} })
	r.session()
	echoesHello(live)
}

// TestAuthoritiesOfClientsAreReadAgain: the ticket of a client whose authority is not trusted any more opens nothing.
func TestAuthoritiesOfClientsAreReadAgain(t *testing.T) {
	ca, before, after := wiretest.NewAuthority(t), wiretest.NewAuthority(t), wiretest.NewAuthority(t)
	dir := t.TempDir()
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(dir, "gateway")), func(c *Config) { c.TLS.ClientCAFile = before.WriteCA(dir) })
	holder := func(a *wiretest.Authority) *tls.Config {
		return clientTLS(ca, func(c *tls.Config) {
			c.Certificates, c.ClientSessionCache = []tls.Certificate{a.Sign(pkix.Name{CommonName: "agent"})}, tls.NewLRUClientSessionCache(1)
		})
	}
	old := holder(before)
	live, _ := r.secure(old)
	after.WriteCA(dir)
	r.look()
	r.secure(holder(after))
	conn, err := r.handshake(old)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "remote error") {
		t.Errorf("%v, want an alert", err)
	}
	echoesHello(live)
}
