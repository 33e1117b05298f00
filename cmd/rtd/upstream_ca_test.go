package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// serveTLS runs a scripted wss upstream and returns its base URL and the file with its authority.
func serveTLS(t *testing.T) (base, ca string) {
	t.Helper()
	s, err := sim.New(sim.Config{TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, s.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(s.URL(), "/realtime"), ca
}

func TestUpstreamOfAPrivateAuthority(t *testing.T) {
	base, ca := serveTLS(t)
	args := []string{"--upstream", base, "--provider", "compatible", "--model", "mock", "--pool-size", "0"}

	p := startProcess(t, nil, append(args, "--upstream-ca", ca)...)
	c := wiretest.Connect(t, p.listen)
	if _, first := c.ReadMessage(); !strings.Contains(string(first), `"session.created"`) {
		t.Errorf("first message %s", first)
	}

	distrustful := startProcess(t, nil, args...)
	stranger := wiretest.Dial(t, distrustful.listen)
	stranger.SendString(wiretest.HS)
	if head, err := stranger.TryReadHead(); err != nil || !strings.Contains(head, " 502 ") {
		t.Errorf("without --upstream-ca the upstream is not to be trusted: %q, %v", head, err)
	}
}

func TestUpstreamCAThatHoldsNone(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := wiretest.NewUpstream(t, wiretest.Ready)
	f := func(file, want string) {
		t.Helper()
		o, err := parseOptions(upstreamArgs(up, "--upstream-ca", file), func(string) string { return "" })
		if err == nil {
			_, err = readConfig(o, &watchedFiles{}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--upstream-ca") {
			t.Errorf("%s: %v, want an error with %q", file, err, want)
		}
	}
	f(empty, "no certificate in PEM")
	f(empty+".not", "no such file")
	f(os.DevNull, "is not a regular file") // as a pipe, which would be waited for
}
