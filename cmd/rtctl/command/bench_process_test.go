package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/bench"
	"github.com/rtd-project/rtd/internal/sim"
)

// benchProcess is `rtctl bench connect` as a process of its own, behind wrap.
func benchProcess(t *testing.T, wrap []string, args ...string) *exec.Cmd {
	t.Helper()
	return benchCommand(t, wrap, append([]string{"connect"}, args...)...)
}

func benchCommand(t *testing.T, wrap []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	line := append(append(wrap, os.Args[0], "bench"), args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "RTCTL_TEST_RUN=1", "OPENAI_API_KEY=")
	return cmd
}

// upstream runs a scripted upstream until the test ends.
func upstream(t *testing.T, cfg sim.Config, rules ...string) (url string) {
	t.Helper()
	for _, text := range rules {
		rule, err := sim.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Fail = append(cfg.Fail, rule)
	}
	s, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	return s.URL()
}

func TestBenchConnectExitStatuses(t *testing.T) {
	f := func(status int, stderr string, wrap []string, args ...string) {
		t.Helper()
		cmd := benchProcess(t, wrap, append([]string{"--max-late", "10s"}, args...)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Errorf("%q: status %d, want %d\n%s%s", args, got, status, out, &said)
		}
		if text := said.String(); !strings.Contains(text, stderr) || strings.Count(text, "\n") > 1 || strings.ContainsRune(text, '\x1b') || (status == 0) != (text == "") {
			t.Errorf("%q: stderr %q, want one line with %q, or nothing", args, text, stderr)
		}
		if measured := strings.Contains(string(out), "target"); measured != (status != exitUsage) {
			t.Errorf("%q: stdout %q", args, out)
		}
	}
	good := upstream(t, sim.Config{})
	tenth := upstream(t, sim.Config{}, "status=429,rate=0.1")
	none := upstream(t, sim.Config{}, "status=401")
	host := strings.TrimSuffix(strings.TrimPrefix(good, "ws://"), "/v1/realtime")

	f(exitOK, "", nil, "--url", good, "-n", "4", "-c", "2", "--assert", "ready.count>=4", "--assert", "success>=100")
	f(exitOK, "", nil, "-host", host, "-insecure", "-key", "sk-test-bench", "-m", "any", "-n", "2", "-t", "20", "--subprotocol-key")
	f(exitOK, "", nil, "--url", tenth, "-n", "20", "--min-success", "90")
	f(exitFailed, "90.0% of the calls succeeded", nil, "--url", tenth, "-n", "20")
	f(exitFailed, "assertion ready.p50<0.0001", nil, "--url", good, "-n", "2", "--assert", "ready.p50<0.0001")
	f(exitFailed, "no call succeeded", nil, "--url", none, "-n", "2", "--min-success", "0")
	f(exitUsage, "--assert", nil, "--url", good, "--assert", "ready<1")
	f(exitInvalid, "invalid: the generator was late", nil, "--url", good, "-n", "4", "--max-late", "1ns", "--rate", "100", "-t", "20")
	f(exitInvalid, "ran out of descriptors", []string{"sh", "-c", `ulimit -n 20; exec "$0" "$@"`}, "--url", upstream(t, sim.Config{ResponseDelay: 300 * time.Millisecond}), "-n", "60", "-c", "60")
}

func TestInterruptedBenchPrintsWhatItMeasured(t *testing.T) {
	cmd := benchProcess(t, nil, "--url", upstream(t, sim.Config{ResponseDelay: 20 * time.Millisecond}), "-n", "1000000", "-c", "2", "--max-late", "10s")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // nothing tells from outside that calls have been made
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	interrupted := time.Now()
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != exitFailed || time.Since(interrupted) > 5*time.Second {
		t.Errorf("status %d after %v", status, time.Since(interrupted))
	}
	if !strings.Contains(stdout.String(), "100%") || !strings.Contains(stderr.String(), "interrupted after") {
		t.Errorf("stdout %q\nstderr %q", &stdout, &stderr)
	}
}

// The whole of --self: an upstream behind TLS, a gateway with a pool and one without, all of them real processes.
func TestBenchSelfComparesThreeLegs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds rtd")
	}
	dir := t.TempDir()
	rtd, err := bench.FindRTD(t.Context(), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("peers", func(t *testing.T) { comparePeers(t, rtd) })
	cmd := benchProcess(t, nil, "--self", "--rtd", rtd, "-n", "16", "-c", "4", "--dial-delay", "60ms", "--response-delay", "20ms", "-o", "json", "--max-late", "10s",
		"--report", filepath.Join(dir, "page.html"), "--assert", "gateway.hits>=99", "--assert", "ready_hit.p50<=0.5*gateway-off.ready.p50", "--assert", "direct.dial.p50>=60")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, &stderr, out)
	}
	var r bench.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Legs) != 3 || r.Config.Rig == nil || r.Config.Rig.PoolSize != 4 || len(r.Assertions) != 3 {
		t.Errorf("report %+v", r)
	}
	for _, leg := range r.Legs {
		if leg.OK != 16 {
			t.Errorf("%s: %d of 16 calls, %v", leg.Name, leg.OK, leg.Failures)
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, "page.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("no whole page: %v", err)
	}
}

// comparePeers puts a tiny load through rtd and through those proxies that are installed.
func comparePeers(t *testing.T, rtd string) {
	peers := []string{bench.PeerRTD}
	for _, name := range []string{bench.PeerHAProxy, bench.PeerNginx} {
		if _, err := bench.FindPeer(name); err != nil {
			t.Logf("without %s: %v", name, err)
			continue
		}
		peers = append(peers, name)
	}
	cmd := benchCommand(t, nil, "peers", "--rtd", rtd, "--peers", strings.Join(peers, ","), "--idle", "20", "--sessions", "2", "--duration", "200ms", "--repeat", "1",
		"--max-late", "10s", "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var r bench.PeersReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Peers) != len(peers) || len(r.Ratios) != len(peers)-1 {
		t.Errorf("report %+v", r)
	}
	for _, p := range r.Peers {
		if len(p.Turns) != 1 || p.Turns[0].Frames != 2*2*10 || p.Turns[0].CPUMicros <= 0 || p.Turns[0].Round.P50 <= 0 || p.Turns[0].Direct.P50 <= 0 || p.Version == "" {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
}

func TestBenchPeersSaysWhatIsMissing(t *testing.T) {
	cmd := benchCommand(t, nil, "peers", "--rtd", "/bin/false", "--peers", "rtd")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, _ := cmd.Output(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "rtd: it ended at once") || len(out) > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", cmd.ProcessState.ExitCode(), out, &stderr)
	}
}

func TestBenchSelfSaysWhatIsMissing(t *testing.T) {
	cmd := benchProcess(t, nil, "--self", "--rtd", filepath.Join(t.TempDir(), "nowhere"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if out, _ := cmd.Output(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "--rtd") || len(out) > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", cmd.ProcessState.ExitCode(), out, &stderr)
	}
	// An rtd that ends at once.
	cmd = benchProcess(t, nil, "--self", "--rtd", "/bin/false")
	stderr.Reset()
	cmd.Stderr = &stderr
	if _, _ = cmd.Output(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "gateway: it ended at once") {
		t.Errorf("status %d, stderr %q", cmd.ProcessState.ExitCode(), &stderr)
	}
}

func TestBenchToAReaderThatLeaves(t *testing.T) {
	cmd := benchProcess(t, nil, "--url", upstream(t, sim.Config{}), "-n", "2", "-o", "csv", "--max-late", "10s")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(line, "leg,") {
		t.Errorf("%v, %q", err, line)
	}
}
