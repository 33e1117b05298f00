package daemon

import (
	"bufio"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestClientsOverTLS(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	for _, goroutines := range []bool{false, true} {
		t.Run(fmt.Sprintf("goroutines=%v", goroutines), func(t *testing.T) {
			r := startRig(t, wiretest.NewTLSUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) { c.goroutines = goroutines })
			r.awaitIdle(1)
			f := func(version uint16) {
				t.Helper()
				c, conn := r.secure(clientTLS(ca, func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }))
				if s := conn.ConnectionState(); s.Version != version || s.NegotiatedProtocol != "http/1.1" {
					t.Errorf("got %s and protocol %q", tls.VersionName(s.Version), s.NegotiatedProtocol)
				}
				echoesHello(c)
				c.SendClose(1000, "")
				c.ExpectClose(1000)
				c.ExpectEOF() // which a truncation is not
			}
			f(tls.VersionTLS13)
			f(tls.VersionTLS12)
			if _, err := r.handshake(clientTLS(ca, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })); err == nil {
				t.Error("TLS 1.1 was accepted")
			}
			r.await("line of a session", func() bool { return r.lines("session ended", `"code":1000`) == 2 })
			if r.lines(`"ready"`, `"tls":true`) != 1 {
				t.Error("the line of the start does not say that there is TLS")
			}
		})
	}
}

// TestFramesRightBehindTheRequest: what a client sends ahead is in the tls.Conn when the relay takes it, or in the socket.
func TestFramesRightBehindTheRequest(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, withTLS(ca.WritePair(t.TempDir(), "gateway")))
	hello := string(wiretest.Hex(t, wiretest.Hello))
	f := func(writes ...string) {
		t.Helper()
		conn, err := r.handshake(clientTLS(ca))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes { // a record each
			if _, err := conn.Write([]byte(w)); err != nil {
				t.Fatal(err)
			}
		}
		c := wiretest.NewClient(t, conn)
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		c.ExpectText("Hello")
		c.ExpectText("Hello")
		echoesHello(c)
	}
	f(wiretest.HS + hello + hello)
	f(wiretest.HS, hello, hello)
	f(wiretest.HS+hello[:3], hello[3:]+hello[:1], hello[1:])
}

func TestSessionTickets(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := clientTLS(ca, func(c *tls.Config) {
			c.ClientSessionCache, c.MaxVersion = tls.NewLRUClientSessionCache(1), version
		})
		_, first := r.secure(config)
		_, second := r.secure(config)
		if first.ConnectionState().DidResume || !second.ConnectionState().DidResume {
			t.Errorf("%s: resumed %v, then %v", tls.VersionName(version), first.ConnectionState().DidResume, second.ConnectionState().DidResume)
		}
	}
}

func TestLeastTLSVersion(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) { c.TLS.MinVersion = tls.VersionTLS13 })
	if _, err := r.handshake(clientTLS(ca, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	r.secure(clientTLS(ca))
}

func TestPlaintextOnATLSPort(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")))
	c := wiretest.Dial(t, r.addr)
	c.SendString(wiretest.HSWith("", "Authorization: Bearer sk-test-plain"))
	header, body := c.ExpectStatus(http.StatusBadRequest)
	if header.Get("Connection") != "close" || !strings.Contains(body, `"tls_required"`) || !strings.Contains(body, "wss://") {
		t.Errorf("got %v %s", header, body)
	}
	c.ExpectEOF()
	other := wiretest.Dial(t, r.addr)
	other.SendString("SSH-2.0-OpenSSH\r\n\r\n")
	if b, err := other.TryReadRaw(time.Now().Add(5 * time.Second)); len(b) > 0 && b[0] != 21 { // 21 is an alert
		t.Errorf("no HTTP request got %q, %v", b, err)
	}
	if s := r.log.String(); strings.Contains(s, "sk-test-plain") {
		t.Error("the log holds what was sent in clear")
	}
	r.await("count of it", func() bool { return countOf(r, "tls_required") == 1 })
}

// countOf is how many clients were refused for a reason.
func countOf(r *rig, code string) uint64 { return r.refusals.snapshot()[code] }

func TestFailedTLSHandshakesDoNotFloodTheLog(t *testing.T) {
	ca, other := wiretest.NewAuthority(t), wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) { c.LogLevel = hclog.Info })
	const failing = 50
	for range failing {
		if _, err := r.handshake(clientTLS(other)); err == nil {
			t.Fatal("the wrong authority was believed")
		}
		probe, err := net.Dial("tcp", r.addr) // as health checks do
		if err != nil {
			t.Fatal(err)
		}
		probe.Close()
	}
	r.await("count of them", func() bool { return countOf(r, "tls_handshake_failed") >= failing })
	if n := r.lines("TLS handshake"); n != 1 {
		t.Errorf("%d lines for %d failures", n, failing)
	}
	r.secure(clientTLS(ca))
}

func TestCaseH4SlowTLSHandshakesEnd(t *testing.T) {
	const timeout = 500 * time.Millisecond
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) { c.HandshakeTimeout = timeout })
	r.awaitIdle(1)
	var slow sync.WaitGroup
	f := func(name string, begin func(net.Conn) net.Conn, drip string) {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Error(err)
			return
		}
		slow.Go(func() {
			begun := time.Now()
			defer conn.Close()
			over := begin(conn)
			var dripping sync.WaitGroup
			dripping.Go(func() {
				for drip != "" && time.Since(begun) < timeout+30*time.Second {
					if _, err := io.WriteString(over, drip); err != nil {
						return
					}
					time.Sleep(timeout / 10) // a client that drips, as the case has it
				}
			})
			_ = conn.SetReadDeadline(begun.Add(timeout + 30*time.Second))
			_, err := io.Copy(io.Discard, over)
			if took := time.Since(begun); errors.Is(err, os.ErrDeadlineExceeded) || took > timeout+20*time.Second {
				t.Errorf("%s: lived %v, %v", name, took, err)
			}
			conn.Close()
			dripping.Wait()
		})
	}
	plain := func(c net.Conn) net.Conn { return c }
	encrypted := func(c net.Conn) net.Conn {
		secure := tls.Client(c, clientTLS(ca, func(c *tls.Config) { c.ServerName = "127.0.0.1" }))
		if err := secure.Handshake(); err != nil {
			t.Error(err)
		}
		return secure
	}
	for range 20 {
		f("silence", plain, "")
		f("a record that never ends", func(c net.Conn) net.Conn { _, _ = c.Write([]byte{22, 3, 1, 2, 0}); return c }, "a")
		f("TLS and then silence", encrypted, "")
		f("TLS and then a request that never ends", func(c net.Conn) net.Conn {
			s := encrypted(c)
			_, _ = io.WriteString(s, "GET /v1/realtime?model=mock HTTP/1.1\r\n")
			return s
		}, "X: y\r\n")
	}
	c, _ := r.secure(clientTLS(ca))
	echoesHello(c)
	slow.Wait()
}

func TestClientCertificates(t *testing.T) {
	ca, clients := wiretest.NewAuthority(t), wiretest.NewAuthority(t)
	dir := t.TempDir()
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(dir, "gateway")), func(c *Config) {
		c.TLS.ClientCAFile = clients.WriteCA(dir)
		c.Listen = []string{"0.0.0.0:0"} // a certificate is as good as a key
	})
	_, port, _ := net.SplitHostPort(r.addr)
	r.addr = net.JoinHostPort("127.0.0.1", port)
	with := func(certs ...tls.Certificate) *tls.Config {
		return clientTLS(ca, func(c *tls.Config) { c.Certificates, c.ClientSessionCache = certs, tls.NewLRUClientSessionCache(1) })
	}
	refused := func(config *tls.Config) {
		t.Helper()
		conn, err := r.handshake(config)
		if err == nil { // the client's side of TLS 1.3 is done before the server looked
			defer conn.Close()
			_, _ = io.WriteString(conn, wiretest.HS)
			_, err = conn.Read(make([]byte, 1))
		}
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "remote error" {
			t.Errorf("got %v, want an alert", err)
		}
	}
	agent := clients.Sign(pkix.Name{CommonName: "agent-7", Organization: []string{"Example"}})
	config := with(agent)
	for range 2 { // the second with a ticket
		c, _ := r.secure(config)
		echoesHello(c)
		c.SendClose(1000, "")
		c.ExpectClose(1000)
	}
	r.await("lines of the sessions", func() bool { return r.lines("session ended", `"certificate":"CN=agent-7,O=Example"`) == 2 })
	refused(with())
	refused(with(ca.Sign(pkix.Name{CommonName: "stranger"})))
}

func TestTurnedAwayOverTLS(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) { c.MemorySoftLimit = 1 })
	conn, err := r.handshake(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	c := wiretest.NewClient(t, conn)
	c.SendString(wiretest.HS)
	if header, body := c.ExpectStatus(http.StatusServiceUnavailable); header.Get("Retry-After") == "" || !strings.Contains(body, "out_of_memory") {
		t.Errorf("got %v %s", header, body)
	}
	c.ExpectEOF()
}

// TestATLSClientThatHangsUp while it waits is noticed, though its farewell lies unread before its end.
func TestATLSClientThatHangsUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	ca := wiretest.NewAuthority(t)
	held := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { c.ReadRequest(); c.ExpectEOF() })
	r := startRig(t, held, 0, withTLS(ca.WritePair(t.TempDir(), "gateway")))
	conn, err := r.handshake(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, wiretest.HS); err != nil {
		t.Fatal(err)
	}
	held.Conn(1)
	conn.Close()
	r.await("notice of it", func() bool { return countOf(r, "client_gone") == 1 })
}

func TestTokensOverTLS(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1, withTLS(ca.WritePair(t.TempDir(), "gateway")), func(c *Config) {
		c.Auth = auth.Config{Keys: []auth.Key{{Name: "app", Digest: auth.DigestOf("sk-test-app")}}}
	})
	conn, err := r.handshake(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-test-app\r\nContent-Length: 2\r\n\r\n{}")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "ek_rtd_") {
		t.Errorf("got %d %s, %v", answer.StatusCode, body, err)
	}
}

func TestTLSFaultsEndTheStart(t *testing.T) {
	ca := wiretest.NewAuthority(t)
	dir := t.TempDir()
	good, other := ca.WritePair(dir, "gateway"), ca.WritePair(t.TempDir(), "other")
	empty := ca.Write(filepath.Join(dir, "empty.pem"), []byte("nothing\n"))
	f := func(want string, c TLS, up ...func(*Upstream)) {
		t.Helper()
		cfg := Config{Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: dir + "/s", TLS: c, Routes: []Route{{
			Models: []string{"m"}, Upstream: Upstream{Upstream: rigUpstream(mustURL(t, "wss://upstream.example/v1"))},
		}}}
		for _, change := range up {
			change(&cfg.Routes[0].Upstream)
		}
		d, err := New(cfg)
		if err == nil {
			d.engine.Close()
			t.Errorf("want an error with %q", want)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want an error of one line with %q", err, want)
		}
	}
	f("cert_file and key_file go together", TLS{CertFile: good.Cert})
	f("cert_file and key_file go together", TLS{KeyFile: good.Key})
	f("client_ca_file and min_version need", TLS{ClientCAFile: good.Cert})
	f("TLS 1.1 is not supported; use 1.2 or 1.3", TLS{CertFile: good.Cert, KeyFile: good.Key, MinVersion: tls.VersionTLS11})
	f("tls.cert_file: open "+dir+"/none: no such file", TLS{CertFile: dir + "/none", KeyFile: good.Key})
	f("tls.cert_file: "+empty+" holds no certificate in PEM; name a file that does; tls.key_file: "+empty+" holds no private key", TLS{CertFile: empty, KeyFile: empty})
	f("tls.key_file: "+other.Key+" does not match", TLS{CertFile: good.Cert, KeyFile: other.Key})
	f("tls.client_ca_file: "+empty+" holds no certificate", TLS{CertFile: good.Cert, KeyFile: good.Key, ClientCAFile: empty})
	f("upstream up: tls: cert_file and key_file go together", TLS{}, func(u *Upstream) { u.CertFile = good.Cert })
	f("upstream up: tls.cert_file: "+empty, TLS{}, func(u *Upstream) { u.CertFile, u.KeyFile = empty, good.Key })
}
