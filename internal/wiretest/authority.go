package wiretest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for one test.
type Authority struct {
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

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
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

// Pool trusts it.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Sign makes a certificate for loopback, for either end. change may make it another.
func (a *Authority) Sign(name pkix.Name, change ...func(*x509.Certificate)) tls.Certificate {
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
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Write puts a file in place as an update does: whole, under its name at once.
func (a *Authority) Write(path string, content []byte) string {
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

// Expired makes a certificate one whose time is over.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// KeyPair is where a certificate and its key are kept, in PEM.
type KeyPair struct{ Cert, Key string }

// WritePair puts a new certificate for loopback and its key into dir.
func (a *Authority) WritePair(dir, name string, change ...func(*x509.Certificate)) KeyPair {
	a.t.Helper()
	return a.ReplacePair(KeyPair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}, name, change...)
}

// ReplacePair puts a new certificate and key in the place of p.
func (a *Authority) ReplacePair(p KeyPair, name string, change ...func(*x509.Certificate)) KeyPair {
	a.t.Helper()
	c := a.Sign(pkix.Name{CommonName: name}, change...)
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	a.Write(p.Key, pemOf("PRIVATE KEY", key))
	a.Write(p.Cert, pemOf("CERTIFICATE", c.Certificate[0]))
	return p
}

// WriteCA puts its own certificate into dir.
func (a *Authority) WriteCA(dir string) string {
	return a.Write(filepath.Join(dir, "ca.pem"), pemOf("CERTIFICATE", a.cert.Raw))
}
