package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// startTLS puts TLS in front of a plain server, for clients that dial nothing else. It returns the base URL and a file
// with the certificate to trust.
func startTLS(t *testing.T, backend string) (base, ca string) {
	t.Helper()
	cert, ca := certificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { pipe(front, backend) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Wait()
	})
	return "https://" + l.Addr().String(), ca
}

// pipe copies both ways until both have ended. The client's end is passed on as it comes, so that neither side sees more
// than it would without TLS between them.
func pipe(front net.Conn, backend string) {
	defer front.Close()
	back, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer back.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(back, front)
		_ = back.(*net.TCPConn).CloseWrite()
	})
	both.Go(func() {
		_, _ = io.Copy(front, back)
		_ = front.(*tls.Conn).CloseWrite()
	})
	both.Wait()
}

// certificate makes a certificate for loopback that signs itself, and the file that makes a client trust it.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
