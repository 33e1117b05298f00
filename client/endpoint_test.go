package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// selfSigned is a certificate for both ends of a connection on loopback, and the pool that trusts it.
func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ops"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, nil
}

// startRemoteFake is startFake over TCP. config is a client's for it.
func startRemoteFake() (f *fake, endpoint string, config *tls.Config, err error) {
	cert, pool, err := selfSigned()
	if err != nil {
		return nil, "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	f = &fake{done: make(chan struct{}), pool: &rtdv1.Pool{Name: "openai/gpt-realtime", Size: 8}}
	f.serve(l, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	return f, "tcp://" + l.Addr().String(), &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}, nil
}

// Ask a daemon on another host. Elsewhere the certificate comes from tls.LoadX509KeyPair.
func ExampleWithTLS() {
	f, endpoint, config, err := startRemoteFake()
	if err != nil {
		slog.Error("no daemon", "error", err)
		return
	}
	defer f.close()

	c, err := client.New(endpoint, client.WithTLS(config))
	if err != nil {
		slog.Error("no client", "error", err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pools, err := c.Pools(ctx)
	if err != nil {
		slog.Error("no pools", "error", err)
		return
	}
	fmt.Println(pools[0].GetName(), pools[0].GetSize())
	// Output: openai/gpt-realtime 8
}

func TestErrorsOverTCP(t *testing.T) {
	f, endpoint, good, err := startRemoteFake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	g := func(endpoint string, config *tls.Config, kind error, text string) {
		t.Helper()
		c, err := client.New(endpoint, client.WithTLS(config))
		if err == nil {
			defer c.Close()
			_, err = c.Pools(t.Context())
		}
		if !errors.Is(err, kind) || err != nil && (!strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), endpoint)) {
			t.Errorf("%v, want %v with %q and %s", err, kind, text, endpoint)
		}
	}
	stranger, _, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	g(endpoint, good, nil, "")
	g(endpoint, &tls.Config{RootCAs: good.RootCAs}, client.ErrInvalid, "takes a client certificate")
	g(endpoint, &tls.Config{RootCAs: good.RootCAs, Certificates: []tls.Certificate{{}}}, client.ErrUnreachable, "asks for a client certificate, and got none")
	g(endpoint, &tls.Config{RootCAs: good.RootCAs, Certificates: []tls.Certificate{stranger}}, client.ErrUnreachable, "refuses the certificate of this client: ")
	g(endpoint, &tls.Config{RootCAs: x509.NewCertPool(), Certificates: good.Certificates}, client.ErrUnreachable, "shows a certificate that cannot be trusted")
	g(endpoint, &tls.Config{RootCAs: good.RootCAs, Certificates: good.Certificates, ServerName: "rtd.example.com"}, client.ErrUnreachable, "shows a certificate that cannot be trusted")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "tcp://" + l.Addr().String()
	l.Close()
	g(nobody, good, client.ErrUnreachable, "nothing listens there")
	g("tcp://127.0.0.1", good, client.ErrInvalid, "is no tcp://host:port")
}

// The version of a daemon is in the error for what it does not know.
func TestUnknownCallOfAnOldDaemon(t *testing.T) {
	f, c := start(t)
	f.info = &rtdv1.DaemonInfo{Version: "v0.1.0"}
	if _, err := c.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := c.RecyclePool(t.Context(), "")
	if want := "rtd at " + f.socket + " (v0.1.0) does not know RecyclePool; upgrade it"; !errors.Is(err, client.ErrUnsupported) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
