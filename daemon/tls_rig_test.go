package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// authority signs certificates for one test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// sign makes a certificate for loopback, for either end.
func (a *authority) sign(name pkix.Name) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name.CommonName}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts a file in place as an update does: whole, under its name at once.
func (a *authority) write(path string, content []byte) string {
	a.t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pair is where a test keeps a certificate and its key.
type pair struct{ cert, key string }

func (a *authority) writePair(dir, name string) pair {
	a.t.Helper()
	return a.replacePair(pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}, name)
}

func (a *authority) replacePair(p pair, name string) pair {
	a.t.Helper()
	c := a.sign(pkix.Name{CommonName: name})
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(p.key, pemOf("PRIVATE KEY", key))
	a.write(p.cert, pemOf("CERTIFICATE", c.Certificate[0]))
	return p
}

func (a *authority) writeCA(dir string) string {
	return a.write(filepath.Join(dir, "ca.pem"), pemOf("CERTIFICATE", a.cert.Raw))
}

// withTLS makes a rig's daemon serve TLS.
func withTLS(p pair) func(*Config) {
	return func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = p.cert, p.key }
}

// clientTLS is what a client that trusts a dials with.
func (a *authority) clientTLS(change ...func(*tls.Config)) *tls.Config {
	c := &tls.Config{RootCAs: a.pool(), NextProtos: []string{"h2", "http/1.1"}}
	for _, f := range change {
		f(c)
	}
	return c
}

// handshake dials the rig with TLS. With TLS 1.3 a server's refusal comes after it, with the first read.
func (r *rig) handshake(config *tls.Config) (*tls.Conn, error) {
	r.t.Helper()
	d := &net.Dialer{Timeout: 5 * time.Second}
	return tls.DialWithDialer(d, "tcp", r.addr, config)
}

// secure opens a session over TLS, past its session.created.
func (r *rig) secure(config *tls.Config, lines ...string) (*wiretest.Client, *tls.Conn) {
	r.t.Helper()
	conn, err := r.handshake(config)
	if err != nil {
		r.t.Fatal(err)
	}
	c := wiretest.NewClient(r.t, conn)
	c.SendString(wiretest.HSWith("", lines...))
	c.Expect101()
	c.ExpectText(wiretest.SessionCreated)
	return c, conn
}

func echoesHello(c *wiretest.Client) {
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
}

// look makes the next handshake look at the files.
func (r *rig) look() { r.current().tls.config.next.Store(0) }

// presented is the name in the certificate that a new connection is shown.
func presented(conn *tls.Conn) string {
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// lines counts the log lines that hold all of the words.
func (r *rig) lines(words ...string) (n int) {
	for line := range bytes.Lines([]byte(r.log.String())) {
		all := true
		for _, w := range words {
			all = all && bytes.Contains(line, []byte(w))
		}
		if all {
			n++
		}
	}
	return n
}

// rigUpstream is an upstream as the rig's, elsewhere.
func rigUpstream(base *url.URL) dialect.Upstream {
	return dialect.Upstream{Dialect: "compatible", Name: "up", BaseURL: base, Credential: testKey, Model: "mock"}
}
