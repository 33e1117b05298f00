package command

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/spf13/cobra"
)

// tlsFiles are what a daemon is reached with over TCP.
type tlsFiles struct{ ca, cert, key string }

// Variables that stand for the flags.
const (
	envTLSCA   = "RTCTL_TLS_CA"
	envTLSCert = "RTCTL_TLS_CERT"
	envTLSKey  = "RTCTL_TLS_KEY"
)

func (f *tlsFiles) flags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.ca, "tls-ca", "", "for tcp://: authorities of the daemon (default $"+envTLSCA+", else the system's)")
	flags.StringVar(&f.cert, "tls-cert", "", "for tcp://: your certificate (default $"+envTLSCert+")")
	flags.StringVar(&f.key, "tls-key", "", "for tcp://: its private key (default $"+envTLSKey+")")
}

// read makes a client's configuration for an endpoint.
func (f *tlsFiles) read(endpoint string) (*tls.Config, error) {
	ca, cert, key := orEnv(f.ca, envTLSCA), orEnv(f.cert, envTLSCert), orEnv(f.key, envTLSKey)
	if cert == "" || key == "" {
		return nil, usagef("endpoint %s takes a client certificate: name it with --tls-cert and --tls-key", endpoint)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, usagef("client certificate %s with key %s: %s", cert, key, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, usagef("--tls-ca: %s", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, usagef("--tls-ca: %s holds no certificate in PEM", ca)
	}
	return config, nil
}

func orEnv(value, variable string) string {
	if value == "" {
		return os.Getenv(variable)
	}
	return value
}
