package files

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// MaxPEM bounds a file with certificates or a key, in bytes: the system's own bundle of authorities is a quarter of a MiB.
const MaxPEM = 8 << 20

// KeyPair reads a certificate, with its chain, and its private key. Each error is about its own file; pair is nil with
// either.
func KeyPair(certFile, keyFile string) (pair *tls.Certificate, certErr, keyErr error) {
	cert, certErr := readCertificate(certFile)
	key, keyErr := readKey(keyFile)
	if certErr != nil || keyErr != nil {
		return nil, certErr, keyErr
	}
	p, err := tls.X509KeyPair(cert, key)
	switch {
	case err == nil:
		return &p, nil, nil
	case strings.Contains(err.Error(), "does not match"):
		return nil, nil, fmt.Errorf("%s does not match the certificate in %s; name the key that was made for it", keyFile, certFile)
	}
	return nil, nil, fmt.Errorf("%s holds a private key that cannot be read: %w", keyFile, err)
}

// Authorities reads the certificates that others are checked against.
func Authorities(file string) (*x509.CertPool, error) {
	text, err := Read(file, MaxPEM)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, noCertificate(file)
	}
	return pool, nil
}

// Untimely says why a certificate is none at that time, "" where it is one. That is worth a warning and no more: the clock
// may be wrong, and a renewal on its way.
func Untimely(cert *x509.Certificate, now time.Time) string {
	switch {
	case now.After(cert.NotAfter):
		return "the certificate expired on " + cert.NotAfter.UTC().Format(time.RFC3339) + "; renew it"
	case now.Before(cert.NotBefore):
		return "the certificate is valid from " + cert.NotBefore.UTC().Format(time.RFC3339) + " on only; is the clock right?"
	}
	return ""
}

func noCertificate(file string) error {
	return fmt.Errorf("%s holds no certificate in PEM; name a file that does", file)
}

// readCertificate returns a file whose first certificate can be read.
func readCertificate(file string) ([]byte, error) {
	text, err := Read(file, MaxPEM)
	if err != nil {
		return nil, err
	}
	block := find(text, func(b *pem.Block) bool { return b.Type == "CERTIFICATE" })
	switch {
	case block == nil && find(text, isKey) != nil:
		return nil, fmt.Errorf("%s holds a private key and no certificate; name the certificate here, and the key in key_file", file)
	case block == nil:
		return nil, noCertificate(file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds a certificate that cannot be read: %w", file, err)
	}
	if key, ok := cert.PublicKey.(*ecdsa.PublicKey); ok && key.Curve == elliptic.P224() {
		return nil, fmt.Errorf("%s holds a certificate with a key on the curve P-224, which TLS does not use; make one on P-256", file)
	}
	return text, nil
}

// readKey returns a file with a private key that is not locked.
func readKey(file string) ([]byte, error) {
	text, err := Read(file, MaxPEM)
	if err != nil {
		return nil, err
	}
	block := find(text, isKey)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%s holds no private key in PEM; name a file that does", file)
	case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return nil, fmt.Errorf("%s holds a private key with a passphrase, which nobody could type; take it off", file)
	}
	return text, nil
}

func isKey(b *pem.Block) bool {
	return b.Type == "PRIVATE KEY" || strings.HasSuffix(b.Type, " PRIVATE KEY")
}

// find returns the first block that is wanted, nil for none.
func find(text []byte, wanted func(*pem.Block) bool) *pem.Block {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || wanted(block) {
			return block
		}
	}
}
