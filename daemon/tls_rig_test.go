package daemon

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// withTLS makes a rig's daemon serve TLS.
func withTLS(p wiretest.KeyPair) func(*Config) {
	return func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = p.Cert, p.Key }
}

// clientTLS is what a client that trusts ca dials with.
func clientTLS(ca *wiretest.Authority, change ...func(*tls.Config)) *tls.Config {
	c := &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2", "http/1.1"}}
	for _, f := range change {
		f(c)
	}
	return c
}

// handshake dials the rig with TLS. With TLS 1.3 a server's refusal comes after it, with the first read.
func (r *rig) handshake(config *tls.Config) (*tls.Conn, error) {
	r.t.Helper()
	d := &net.Dialer{Timeout: 20 * time.Second}
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
