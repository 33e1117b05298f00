package main

import (
	"crypto/x509"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// remote is an rtd whose control is on TCP, too, and what its clients need.
type remote struct {
	*process
	ca       *wiretest.Authority
	caFile   string
	endpoint string
}

func startRemote(t *testing.T, up *wiretest.Upstream) *remote {
	t.Helper()
	dir, ca := openDir(t), wiretest.NewAuthority(t)
	r := &remote{ca: ca, caFile: ca.WriteCA(dir)}
	pair := ca.WritePair(dir, "rtd")
	r.process = startProcess(t, []string{
		"RTD_CONTROL_LISTEN=127.0.0.1:0", "RTD_CONTROL_TLS_CERT_FILE=" + pair.Cert, "RTD_CONTROL_TLS_KEY_FILE=" + pair.Key,
		"RTD_CONTROL_TLS_CLIENT_CA_FILE=" + r.caFile, "RTD_CONTROL_ADMINS=ops",
	}, upstreamArgs(up, "--pool-size", "2")...)
	for line := range strings.Lines(r.output()) {
		var l struct {
			Message string `json:"@message"`
			Control string `json:"control"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Message == "ready" {
			r.endpoint = "tcp://" + l.Control
		}
	}
	return r
}

// as is rtctl of somebody with a certificate, asked about the remote daemon and those of further endpoints.
func (r *remote) as(name string, change []func(*x509.Certificate), args ...string) *exec.Cmd {
	r.t.Helper()
	pair := r.ca.WritePair(r.t.TempDir(), name, change...)
	return r.rtctl(append(args, "--endpoint", r.endpoint, "--tls-ca", r.caFile, "--tls-cert", pair.Cert, "--tls-key", pair.Key)...)
}

// Two daemons, one by its socket and one over TCP, answer as one.
func TestRtctlOfTwoDaemons(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	near, far := startAt(t, filepath.Join(openDir(t), "near.sock"), nil, upstreamArgs(up, "--pool-size", "1")...), startRemote(t, up)
	both := []string{"--endpoint", near.socket}
	expect(t, far.as("ops", nil, append(both, "ready", "--min-warm", "1", "--timeout", "20s")...), 0)

	var pools struct {
		Pools []struct {
			Daemon string
			Size   int
		}
	}
	decode := func(out string, doc any) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), doc); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	list := func() {
		t.Helper()
		out, _ := expect(t, far.as("viewer", nil, append(both, "pool", "list", "-o", "json")...), 0)
		pools.Pools = nil
		decode(out, &pools)
	}
	list()
	address := strings.TrimPrefix(far.endpoint, "tcp://")
	if len(pools.Pools) != 2 || pools.Pools[0].Daemon != "near" || pools.Pools[1].Daemon != address || pools.Pools[0].Size != 1 || pools.Pools[1].Size != 2 {
		t.Fatalf("%+v", pools)
	}

	out, _ := expect(t, far.as("ops", nil, append(both, "pool", "resize", "3")...), 0)
	if !strings.Contains(out, "size 3, was 1") || !strings.Contains(out, "size 3, was 2") {
		t.Errorf("%q", out)
	}
	// A reader of the one and owner of the other changes the other.
	_, stderr := expect(t, far.as("viewer", nil, append(both, "pool", "resize", "2")...), 1)
	if want := "rtctl: " + address + `: certificate "viewer" may only read; ask for its name in control.admins` + "\n"; stderr != want {
		t.Errorf("%q, want %q", stderr, want)
	}
	if list(); pools.Pools[0].Size != 2 || pools.Pools[1].Size != 3 {
		t.Errorf("%+v", pools)
	}

	c := wiretest.Connect(t, far.listen)
	c.ExpectText(wiretest.SessionCreated)
	var sessions struct{ Sessions []struct{ ID, Daemon string } }
	for len(sessions.Sessions) == 0 { // the client is told a moment before it is on record
		out, _ := expect(t, far.as("viewer", nil, append(both, "session", "list", "-o", "json")...), 0)
		decode(out, &sessions)
	}
	if s := sessions.Sessions; len(s) != 1 || s[0].Daemon != address {
		t.Fatalf("%+v", s)
	}
	if out, _ := expect(t, far.as("ops", nil, append(both, "session", "close", sessions.Sessions[0].ID)...), 0); !strings.Contains(out, "closed with 1001") {
		t.Errorf("%q", out)
	}
	c.ExpectClose(1001)

	near.signal(syscall.SIGTERM)
	near.expectExit(0)
	out, stderr = expect(t, far.as("viewer", nil, append(both, "status")...), 1)
	if !strings.Contains(out, address) || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "rtctl: near: no rtd at "+near.socket) {
		t.Errorf("%q, %q", out, stderr)
	}
}

func TestRtctlWithACertificateThatIsNoGood(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	far := startRemote(t, up)
	f := func(cmd *exec.Cmd, code int, said string) {
		t.Helper()
		out, stderr := expect(t, cmd, code)
		if out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, far.endpoint) || !strings.Contains(stderr, said) {
			t.Errorf("%q, %q; want one line with %q", out, stderr, said)
		}
	}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	f(far.as("ops", []func(*x509.Certificate){expired}, "status"), 1, "refuses the certificate of this client: expired certificate")

	stranger := wiretest.NewAuthority(t).WritePair(t.TempDir(), "ops")
	f(far.rtctl("status", "--endpoint", far.endpoint, "--tls-ca", far.caFile, "--tls-cert", stranger.Cert, "--tls-key", stranger.Key), 1, "refuses the certificate of this client: ")

	f(far.rtctl("status", "--endpoint", far.endpoint, "--tls-ca", far.caFile), 2, "takes a client certificate: name it with --tls-cert and --tls-key")

	mine := far.ca.WritePair(t.TempDir(), "ops")
	other := wiretest.NewAuthority(t).WriteCA(t.TempDir())
	f(far.rtctl("status", "--endpoint", far.endpoint, "--tls-ca", other, "--tls-cert", mine.Cert, "--tls-key", mine.Key), 1, "shows a certificate that cannot be trusted")

	env := far.rtctl("status")
	env.Env = append(os.Environ(), "RTD_TEST_MAIN=rtctl", "RTD_SOCKET="+far.endpoint, "RTCTL_TLS_CA="+far.caFile, "RTCTL_TLS_CERT="+mine.Cert, "RTCTL_TLS_KEY="+mine.Key)
	expect(t, env, 0)
}
