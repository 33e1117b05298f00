package files

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// strange are files of every kind that is none to read, by what the error calls them.
func strange(t *testing.T, dir string) map[string]string {
	t.Helper()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return map[string]string{
		"is not a regular file but a pipe": pipe, "is not a regular file but a socket": socket, "is not a regular file but a device": os.DevNull,
		"is a directory": dir, "no such file": filepath.Join(dir, "none"),
	}
}

func TestNothingButARegularFileIsRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "rtd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for want, name := range strange(t, dir) {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{name, link} {
			b, err := Read(name, 10)
			if err == nil || len(b) > 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q, %v, want an error with %q", name, b, err, want)
			}
		}
		os.Remove(link)
	}
}

// A mount of secrets in a cluster is a link to a link: file → ..data/file, ..data → a directory.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2030_01_31"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..2030_01_31", "key"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"..data": "..2030_01_31", "key": "..data/key"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := Read(filepath.Join(dir, "key"), 4); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f := func(n, most int, want string) {
		t.Helper()
		if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Read(name, int64(most))
		if want == "" && (err != nil || len(b) != n) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(b) > 0) {
			t.Errorf("%d of %d bytes: %d, %v, want %q", n, most, len(b), err, want)
		}
	}
	f(0, 1<<10, "")
	f(1<<10, 1<<10, "")
	f(1<<10+1, 1<<10, "longer than such a file may be, 1KiB")
	f(1<<20+1, 1<<20, "longer than such a file may be, 1MiB")
}

// certificateOn is a certificate with a key on that curve.
func certificateOn(t *testing.T, curve elliptic.Curve) []byte {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestKeyPairs(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	dir := t.TempDir()
	good, other := ca.WritePair(dir, "good"), ca.WritePair(t.TempDir(), "other")
	write := func(name string, content []byte) string { return ca.Write(filepath.Join(dir, name), content) }
	block := func(name, kind string, content []byte, headers ...string) string {
		b := &pem.Block{Type: kind, Bytes: content, Headers: map[string]string{}}
		for _, h := range headers {
			b.Headers[h] = "4,ENCRYPTED"
		}
		return write(name, pem.EncodeToMemory(b))
	}
	f := func(cert, key, wantCert, wantKey string) {
		t.Helper()
		pair, certErr, keyErr := KeyPair(cert, key)
		if (pair == nil) != (wantCert+wantKey != "") {
			t.Errorf("%s and %s: a pair: %v", cert, key, pair != nil)
		}
		for _, part := range []struct {
			err        error
			file, want string
		}{{certErr, cert, wantCert}, {keyErr, key, wantKey}} {
			if part.want == "" && part.err != nil || part.want != "" && (part.err == nil || !strings.Contains(part.err.Error(), part.file) || !strings.Contains(part.err.Error(), part.want)) {
				t.Errorf("%s and %s: %v, want an error about %s with %q", cert, key, part.err, part.file, part.want)
			}
			if part.err != nil && strings.Contains(part.err.Error(), "\n") {
				t.Errorf("more than a line: %q", part.err)
			}
		}
	}
	f(good.Cert, good.Key, "", "")
	f(dir, os.DevNull, "is a directory", "is not a regular file")
	f(dir+"/none", dir+"/none", "no such file", "no such file")
	f(write("empty", nil), good.Key, "holds no certificate in PEM", "")
	f(good.Cert, write("text", []byte("not PEM\n")), "", "holds no private key in PEM")
	f(good.Key, good.Cert, "holds a private key and no certificate; name the certificate here, and the key in key_file", "holds no private key")
	f(good.Cert, other.Key, "", "does not match the certificate in "+good.Cert)
	f(block("p224", "CERTIFICATE", certificateOn(t, elliptic.P224())), good.Key, "with a key on the curve P-224, which TLS does not use", "")
	f(block("junk", "CERTIFICATE", []byte("junk")), good.Key, "holds a certificate that cannot be read", "")
	f(good.Cert, block("junk-key", "PRIVATE KEY", []byte("junk")), "", "holds a private key that cannot be read")
	f(good.Cert, block("locked", "ENCRYPTED PRIVATE KEY", []byte("junk")), "", "with a passphrase")
	f(good.Cert, block("locked-too", "EC PRIVATE KEY", []byte("junk"), "Proc-Type"), "", "with a passphrase")

	cert, err := os.ReadFile(good.Cert)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(good.Key)
	if err != nil {
		t.Fatal(err)
	}
	both := write("both", bytes.Join([][]byte{[]byte("a comment\n"), key, cert, cert}, nil))
	f(both, both, "", "") // one file with both, as some agents write it
}

func TestAuthorities(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	dir := t.TempDir()
	if pool, err := Authorities(ca.WriteCA(dir)); err != nil || !pool.Equal(ca.Pool()) {
		t.Errorf("%v", err)
	}
	f := func(file, want string) {
		t.Helper()
		if pool, err := Authorities(file); err == nil || pool != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want an error with %q", file, err, want)
		}
	}
	f(ca.Write(filepath.Join(dir, "empty"), nil), "holds no certificate in PEM")
	f(ca.WritePair(dir, "x").Key, "holds no certificate in PEM")
	f(dir, "is a directory")
	f(filepath.Join(dir, "none"), "no such file")
}

func TestUntimely(t *testing.T) {
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	f := func(from, to time.Duration, want string) {
		t.Helper()
		got := Untimely(&x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(to)}, now)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("from %v to %v: %q, want %q", from, to, got, want)
		}
	}
	f(-time.Hour, time.Hour, "")
	f(-time.Hour, -time.Minute, "expired on 2030-01-31T11:59:00Z; renew it")
	f(time.Minute, time.Hour, "valid from 2030-01-31T12:01:00Z on only")
}
