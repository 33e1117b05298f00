package command

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/sim"
)

// startSim runs `rtctl sim` on a free port and returns the line it prints; stop ends it as a signal does.
func startSim(t *testing.T, args ...string) (line string, stop func() (status int, stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		s := execute(ctx, append([]string{"sim", "--listen", "127.0.0.1:0"}, args...), w, &stderr)
		_ = w.Close()
		status <- s
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("no line: %v, status %d, stderr %s", err, <-status, &stderr)
	}
	return strings.TrimSuffix(line, "\n"), func() (int, string) {
		cancel()
		_, _ = io.Copy(io.Discard, r)
		return <-status, stderr.String()
	}
}

func TestSimRunsUntilItIsInterrupted(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	url, stop := startSim(t, "--tls", "--ca-out", ca)
	endpoint, ok := strings.CutPrefix(url, "wss://")
	if !ok || !strings.HasSuffix(endpoint, "/v1/realtime") {
		t.Fatalf("printed %q", url)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %s", pem)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("https://" + strings.TrimSuffix(endpoint, "/v1/realtime") + "/sim/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var stats sim.Stats
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil || stats.Dials != 0 {
		t.Errorf("stats %+v, error %v", stats, err)
	}
	if status, stderr := stop(); status != exitOK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestSimPrintsJSONOnOneLine(t *testing.T) {
	line, stop := startSim(t, "-o", "json")
	var doc simDocument
	if err := json.Unmarshal([]byte(line), &doc); err != nil || !strings.HasPrefix(doc.URL, "ws://127.0.0.1:") {
		t.Errorf("printed %q: %v", line, err)
	}
	if status, stderr := stop(); status != exitOK || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestSimFlagsReachTheServer(t *testing.T) {
	t.Setenv("SIM_TEST_KEY", "sk-test-sim")
	url, stop := startSim(t, "--fail", "status=503,first=1", "--require-key-env", "SIM_TEST_KEY")
	get := func(key string) int {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(url, "ws")+"?model=m", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Authorization": {"Bearer " + key}}
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		answer, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for i, want := range []int{503, 401, 101} {
		if got := get([]string{"sk-test-sim", "sk-test-other", "sk-test-sim"}[i]); got != want {
			t.Errorf("dial %d: status %d, want %d", i+1, got, want)
		}
	}
	stop()
}

func TestSimRefusesWrongArguments(t *testing.T) {
	f := func(status int, want string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		got := execute(context.Background(), append([]string{"sim"}, args...), &stdout, &stderr)
		if got != status || !strings.Contains(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %d and %q", args, got, &stdout, &stderr, status, want)
		}
	}
	f(exitUsage, `unknown part "stauts"`, "--fail", "stauts=429")
	f(exitUsage, "--ca-out goes with --tls", "--ca-out", "x")
	f(exitUsage, "SIM_TEST_UNSET", "--require-key-env", "SIM_TEST_UNSET")
	f(exitUsage, "--audio-ms", "--audio-ms", "0")
	f(exitUsage, "--chunk-ms", "--chunk-ms", "-5")
	f(exitUsage, "--expires-in", "--expires-in", "20ms")
	f(exitUsage, "SessionDelay", "--session-delay", "-1s")
	f(exitUsage, "one argument too many", "now")
	f(exitFailed, "--ca-out", "--tls", "--ca-out", filepath.Join(t.TempDir(), "no", "ca.pem"))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	f(exitFailed, "address already in use", "--listen", busy.Addr().String())
}
