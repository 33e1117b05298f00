package command

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"

	"github.com/rtd-project/rtd/internal/bench"
)

// keyProtocol is the subprotocol in which browsers, which cannot set headers, send the key.
const keyProtocol = "openai-insecure-api-key."

// legs makes the targets that the flags name; none with --self.
func (f *connectFlags) legs() ([]bench.Target, error) {
	header, err := f.header()
	if err != nil {
		return nil, err
	}
	var protocols []string
	switch key := f.apiKey(); {
	case key == "":
	case f.subprotocolKey:
		protocols = []string{"realtime", keyProtocol + key}
	case header.Get("Authorization") == "":
		header.Set("Authorization", "Bearer "+key)
	}
	roots, err := f.roots()
	if err != nil {
		return nil, err
	}
	host := f.host
	if host != "" {
		scheme := "wss://"
		if f.insecure {
			scheme = "ws://"
		}
		host = scheme + host
	}
	var legs []bench.Target
	for _, leg := range []struct{ flag, name, url string }{
		{"url", "target", f.url}, {"host", "target", host},
		{"direct", bench.LegDirect, f.direct}, {"gateway", bench.LegGateway, f.gateway}, {"gateway-off", bench.LegGatewayOff, f.gatewayOff},
	} {
		if leg.url == "" {
			continue
		}
		u, err := bench.Endpoint(leg.url, f.model)
		if err != nil {
			return nil, usagef("--%s: %s", leg.flag, err)
		}
		legs = append(legs, bench.Target{Name: leg.name, URL: u, Header: header, Protocols: protocols, TLS: roots})
	}
	return legs, nil
}

func (f *connectFlags) apiKey() string {
	if f.key != "" {
		return f.key
	}
	return os.Getenv("OPENAI_API_KEY")
}

func (f *connectFlags) header() (http.Header, error) {
	header := http.Header{}
	for i, line := range f.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef("--header %d is not 'Name: value'", i+1) // its text may be a secret
		}
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return header, nil
}

func (f *connectFlags) roots() (*tls.Config, error) {
	if f.ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, usagef("--ca: %s", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("--ca: %s holds no certificate in PEM", f.ca)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
