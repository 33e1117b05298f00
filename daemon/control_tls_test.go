package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// remoteRig is a rig whose control is served over TCP, too.
type remoteRig struct {
	*rig
	ca   *wiretest.Authority // of everybody
	pair wiretest.KeyPair    // the daemon's
}

func startRemoteRig(t *testing.T, configure ...func(*Config)) *remoteRig {
	t.Helper()
	ca, dir := wiretest.NewAuthority(t), t.TempDir()
	r := &remoteRig{ca: ca, pair: ca.WritePair(dir, "rtd")}
	caFile := ca.WriteCA(dir)
	r.rig = startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, append([]func(*Config){func(c *Config) {
		c.ControlListen = "127.0.0.1:0"
		c.ControlTLS = TLS{CertFile: r.pair.Cert, KeyFile: r.pair.Key, ClientCAFile: caFile}
		c.ControlAdmins = []string{"ops", "spiffe://example.org/ops"}
	}}, configure...)...)
	return r
}

// dial is a client with the certificate of a name.
func (r *remoteRig) dial(cert tls.Certificate) *client.Client {
	r.t.Helper()
	c, err := client.New("tcp://"+r.listeners.remote.Addr().String(),
		client.WithTLS(&tls.Config{RootCAs: r.ca.Pool(), Certificates: []tls.Certificate{cert}}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

func (r *remoteRig) as(name string, change ...func(*x509.Certificate)) *client.Client {
	r.t.Helper()
	return r.dial(r.ca.Sign(pkix.Name{CommonName: name}, change...))
}

func TestControlOverTCP(t *testing.T) {
	r := startRemoteRig(t)
	f := func(c *client.Client, admin bool, said string) {
		t.Helper()
		if _, err := c.Pools(t.Context()); err != nil {
			t.Errorf("reading: %v", err)
		}
		_, _, err := c.ResizePool(t.Context(), "", 2)
		if admin && err != nil {
			t.Errorf("an admin: %v", err)
		}
		if !admin && (!errors.Is(err, client.ErrDenied) || !strings.Contains(err.Error(), said)) {
			t.Errorf("a reader may change things: %v, want an error with %q", err, said)
		}
	}
	uri := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.URIs, c.DNSNames = []*url.URL{must(url.Parse(text))}, nil }
	}
	nameless := func(c *x509.Certificate) { c.DNSNames = nil }
	f(r.as("ops"), true, "")
	f(r.as("ops", nameless), true, "")
	f(r.as("x", uri("spiffe://example.org/ops")), true, "")
	f(r.as("viewer"), false, `certificate "viewer" may only read; ask for its name in control.admins`)
	f(r.as("OPS"), false, `"OPS"`)
	f(r.as("ops", uri("spiffe://example.org/viewer")), false, `"spiffe://example.org/viewer"`) // a common name beside others is none
	if n := r.lines("control call", `"call":"ResizePool"`, `"certificate":"ops"`); n != 2 {
		t.Errorf("%d lines name the certificate of a change", n)
	}
	if n := r.lines("control call", `"certificate":"viewer"`); n != 0 {
		t.Errorf("%d lines say that somebody who may not changed something", n)
	}
	if _, _, err := r.control().ResizePool(t.Context(), "", 1); err != nil || r.lines("control call", `"call":"ResizePool"`, `"uid":`) != 1 {
		t.Errorf("the socket: %v", err)
	}
}

// Whoever has no certificate of the authority gets no answer, and one line says why.
func TestControlOverTCPTakesACertificate(t *testing.T) {
	r := startRemoteRig(t)
	f := func(cert tls.Certificate, said string) {
		t.Helper()
		_, err := r.dial(cert).Pools(t.Context())
		if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, want an error with %q", err, said)
		}
	}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	f(wiretest.NewAuthority(t).Sign(pkix.Name{CommonName: "ops"}), "refuses the certificate of this client: ")
	f(r.ca.Sign(pkix.Name{CommonName: "ops"}, expired), "refuses the certificate of this client: expired certificate")
	f(tls.Certificate{}, "asks for a client certificate, and got none")

	old := &tls.Config{RootCAs: r.ca.Pool(), Certificates: []tls.Certificate{r.ca.Sign(pkix.Name{CommonName: "ops"})}, MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if conn, err := tls.Dial("tcp", r.listeners.remote.Addr().String(), old); err == nil {
		conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
	r.await("a line on failed handshakes", func() bool { return r.lines("control handshakes fail") == 1 })
}

func TestControlCertificatesAreReadAgain(t *testing.T) {
	r := startRemoteRig(t)
	if _, err := r.as("ops").Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.ca.ReplacePair(r.pair, "renewed")
	r.current().control.config.next.Store(0) // the next handshake looks at the files
	if _, err := r.as("ops").Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.lines("certificate files read again", "CN=renewed") != 1 {
		t.Error("the new certificate is not in force")
	}
}

// A connection that says nothing, or nonsense, has its time, and few have it at once: whoever took longest makes room.
func TestControlHandshakesAreBounded(t *testing.T) {
	r := startRemoteRig(t)
	silent := func() {
		conn := must(net.Dial("tcp", r.listeners.remote.Addr().String()))
		t.Cleanup(func() { conn.Close() })
	}
	for range maxControlHandshakes {
		silent()
	}
	r.await("end of one of them", func() bool {
		silent()
		return r.lines("control handshakes fail", errManyHandshakes.Error()) == 1
	})
	if _, err := r.control().Info(t.Context()); err != nil {
		t.Errorf("the socket does not answer meanwhile: %v", err)
	}
	if _, err := r.as("ops").Info(t.Context()); err != nil {
		t.Errorf("those who are silent keep out who is not: %v", err)
	}
	garbage := must(net.Dial("tcp", r.listeners.remote.Addr().String()))
	defer garbage.Close()
	_, _ = garbage.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	for { // whatever it is answered, it ends
		if _, err := garbage.Read(make([]byte, 100)); err != nil {
			break
		}
	}
}

// Who may look may not use up the daemon by looking from everywhere.
func TestControlConnectionsAreBounded(t *testing.T) {
	r := startRemoteRig(t)
	r.controlConns.most = 2
	first := r.as("viewer")
	for _, c := range []*client.Client{first, r.as("ops")} {
		if _, err := c.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.as("viewer").Info(t.Context()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("one too many: %v", err)
	}
	if n := r.lines("control handshakes fail", errManyConnections.Error()); n != 1 {
		t.Errorf("%d lines say why", n)
	}
	if _, err := r.control().Info(t.Context()); err != nil {
		t.Errorf("the socket: %v", err)
	}
	first.Close()
	r.await("room", func() bool {
		_, err := r.as("ops").Info(t.Context())
		return err == nil
	})
}

// A stop has a second for control, and a handshake has five.
func TestASilentConnectionDoesNotHoldUpAStop(t *testing.T) {
	f := func(conns *controlConns, server net.Conn) {
		t.Helper()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
		conns.remove(server)
		if len(conns.open) != 0 {
			t.Errorf("%v are open", conns.open)
		}
	}
	conns := newControlConns()
	_, server := net.Pipe()
	conns.add(server)
	conns.cutAll()
	f(conns, server)
	_, server = net.Pipe()
	conns.add(server) // accepted just before
	f(conns, server)

	r := startRemoteRig(t)
	open := func() int {
		r.controlConns.mu.Lock()
		defer r.controlConns.mu.Unlock()
		return len(r.controlConns.open)
	}
	for _, ln := range []net.Listener{r.listeners.remote, r.listeners.control} {
		conn := must(net.Dial(ln.Addr().Network(), ln.Addr().String()))
		defer conn.Close()
	}
	r.await("one of them", func() bool { return open() > 0 })
	r.stop()
	if n := open(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestAWatchOverTCPDoesNotHoldUpAStop(t *testing.T) {
	r := startRemoteRig(t)
	var last error
	for _, err := range r.as("viewer").WatchStats(t.Context(), time.Hour) {
		if last = err; err == nil {
			go r.stop()
		}
	}
	if !errors.Is(last, client.ErrStopped) {
		t.Errorf("%v", last)
	}
}

func TestControlOverTCPIsNeverInClear(t *testing.T) {
	f := func(change func(*Config), want string) {
		t.Helper()
		c := Config{ControlListen: "127.0.0.1:0", ControlTLS: TLS{CertFile: "c", KeyFile: "k", ClientCAFile: "a"}}
		change(&c)
		if err := c.validateControl(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(func(*Config) {}, "")
	f(func(c *Config) { c.ControlTLS = TLS{} }, "TLS on both sides")
	f(func(c *Config) { c.ControlTLS.ClientCAFile = "" }, "TLS on both sides")
	f(func(c *Config) { c.ControlListen = "" }, "without control.listen")
	f(func(c *Config) { c.ControlListen = "4003" }, "host:port")
	f(func(c *Config) { c.ControlAdmins = []string{"ops", ""} }, "an empty name")
}

func TestAReloadOfRemoteControl(t *testing.T) {
	r := startRemoteRig(t)
	cfg := r.current().cfg
	cfg.ControlAdmins = []string{"viewer"}
	if _, err := r.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.as("viewer").ResizePool(t.Context(), "", 3); err != nil {
		t.Errorf("the new admin: %v", err)
	}
	if _, _, err := r.as("ops").ResizePool(t.Context(), "", 4); !errors.Is(err, client.ErrDenied) {
		t.Errorf("the old admin: %v", err)
	}
	cfg.ControlListen, cfg.ControlTLS, cfg.ControlAdmins = "", TLS{}, nil
	if _, err := r.Reload(cfg); !errors.Is(err, ErrFixed) {
		t.Errorf("%v", err)
	}
}
