package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/cmd/rtctl/command"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// TestMain lets the test binary stand in for rtd and rtctl: real processes with real signals, without a second build.
func TestMain(m *testing.M) {
	switch os.Getenv("RTD_TEST_MAIN") {
	case "1":
		limitDescriptors(os.Getenv("RTD_TEST_NOFILE"))
		os.Exit(run(os.Args[1:]))
	case "rtctl":
		os.Exit(command.Execute(os.Args[1:], os.Stdout, os.Stderr))
	case "calls":
		os.Exit(callEverything(os.Getenv("RTD_SOCKET")))
	}
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // else every process takes a second to end under the race detector
	}
	os.Exit(m.Run())
}

// process is a running rtd.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	listen string
	admin  string
	socket string
	exited chan struct{}
	err    error // of Wait, once exited is closed

	mu  sync.Mutex
	log strings.Builder
}

// startProcess runs rtd and waits until it says it is ready.
func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, socket: t.TempDir() + "/rtd.sock", exited: make(chan struct{})}
	args = append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--socket", p.socket}, args...)
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(append(os.Environ(), "RTD_TEST_MAIN=1"), env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go p.follow(stderr, ready)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("log:\n%s", p.output())
		}
	})
	select {
	case <-ready:
	case <-p.exited:
		t.Fatalf("rtd ended at once: %v\n%s", p.err, p.output())
	case <-time.After(20 * time.Second):
		t.Fatalf("rtd is not ready:\n%s", p.output())
	}
	return p
}

// follow reads the JSON log until rtd ends.
func (p *process) follow(stderr io.Reader, ready chan struct{}) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		fmt.Fprintln(&p.log, lines.Text())
		p.mu.Unlock()
		var l struct {
			Message string `json:"@message"`
			Listen  string `json:"listen"`
			Admin   string `json:"admin"`
		}
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Message == "ready" {
			p.listen, p.admin = l.Listen, l.Admin
			close(ready)
		}
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// expectExit waits for the end of rtd and compares its exit code.
// promptly is well within the grace of a stop, unless the test gives it less.
const promptly = 20 * time.Second

func (p *process) expectExit(code int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(promptly):
		p.t.Fatalf("rtd still runs after %v", promptly)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d (%v), want %d", got, p.err, code)
	}
}

func (p *process) get(path string) (status int, body string) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func upstreamArgs(up *wiretest.Upstream, more ...string) []string {
	return append([]string{"--upstream", up.URL().String(), "--provider", "compatible", "--model", "mock"}, more...)
}

func TestDevSaysWhereItServes(t *testing.T) {
	f := func(scheme string, env ...string) {
		t.Helper()
		p := startProcess(t, append(env, "OPENAI_API_KEY="), "--dev")
		want := fmt.Sprintf("serves a scripted upstream on %s://%s/v1/realtime", scheme, p.listen)
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(p.output(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not say %q", want)
			}
		}
	}
	f("ws")
	pair := wiretest.NewAuthority(t).WritePair(t.TempDir(), "localhost")
	f("wss", "RTD_TLS_CERT_FILE="+pair.Cert, "RTD_TLS_KEY_FILE="+pair.Key)
}

func TestDevServesWithoutKeyOrConfiguration(t *testing.T) {
	p := startProcess(t, []string{"OPENAI_API_KEY="}, "--dev")
	c := wiretest.Connect(t, p.listen)
	if _, first := c.ReadMessage(); !strings.Contains(string(first), `"session.created"`) {
		t.Errorf("first message %s", first)
	}
	c.SendText(`{"type":"response.create"}`)
	for {
		if _, m := c.ReadMessage(); strings.Contains(string(m), `"response.done"`) {
			break
		}
	}
	if status, body := p.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if status, body := p.get("/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, body)
	}
	c.SendClose(1000, "")
	c.ExpectClose(1000)
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	if _, err := os.Stat(p.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if n := strings.Count(p.output(), `"session ended"`); n != 1 {
		t.Errorf("%d lines for one finished session:\n%s", n, p.output())
	}
}

func TestCaseD4AStopClosesEverySession(t *testing.T) {
	const sessions = 100
	closes := make(chan int, sessions)
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Timeout = 30 * time.Second
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		f, err := c.TryReadFrame()
		if err != nil || f.Op != wiretest.Close {
			t.Errorf("opcode %#x, %v, want a Close", f.Op, err)
			return
		}
		code, _ := f.CloseCode()
		closes <- code
		_ = c.TrySend(c.Frame(true, wiretest.Close, f.Payload))
	})
	p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "0", "--grace", "5s")...)
	var clients []*wiretest.Client
	for range sessions {
		c := wiretest.Connect(t, p.listen)
		c.ExpectText(wiretest.SessionCreated)
		clients = append(clients, c)
	}
	p.signal(syscall.SIGTERM)
	for _, c := range clients {
		c.ExpectClose(1001)
		c.SendClose(1001, "")
		c.ExpectEOF()
	}
	for range sessions {
		if code := <-closes; code != 1001 {
			t.Errorf("the upstream got Close %d, want 1001", code)
		}
	}
	p.expectExit(0)
}

func TestWhileStoppingNewClientsGet503(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "1")...)
	stays := wiretest.Connect(t, p.listen)
	p.signal(syscall.SIGTERM)
	for {
		c := wiretest.Dial(t, p.listen)
		c.SendString(wiretest.HS)
		head, err := c.TryReadHead()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(head, " 503 ") {
			if !strings.Contains(head, "Retry-After: ") {
				t.Errorf("no Retry-After:\n%s", head)
			}
			break
		}
		c.Close() // the signal is still on its way
	}
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	stays.ExpectText(wiretest.SessionCreated)
	stays.SendHex(wiretest.Hello)
	stays.ExpectText("Hello") // undisturbed
	stays.SendClose(1000, "")
	p.expectExit(0)
}

func TestASecondSignalHurriesAThirdExits(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up)...)
	c := wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
	p.signal(syscall.SIGTERM)
	c.ExpectSilence(200 * time.Millisecond)
	p.signal(syscall.SIGINT)
	c.ExpectClose(1001)
	p.expectExit(0)

	deaf := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { wiretest.Ready(c) })
	p = startProcess(t, nil, upstreamArgs(deaf)...)
	c = wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
	for range 3 {
		p.signal(syscall.SIGTERM)
		time.Sleep(50 * time.Millisecond) // signals of one number merge while pending
	}
	select {
	case <-p.exited:
	case <-time.After(promptly):
		t.Error("rtd outlived three signals")
	}
}

func TestCaseD8StopBeforeTheUpstreamEverAnswered(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { _, _ = c.TryReadFrame() })
	p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "4")...)
	up.Conn(1)
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	if _, err := os.Stat(p.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestWrongArgumentsAreOneLineAndExit2(t *testing.T) {
	f := func(want string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(append(os.Environ(), "RTD_TEST_MAIN=1", "OPENAI_API_KEY=sk-test-env"), env...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%q: %v, want exit 2", args, err)
		}
		if lines := strings.Count(string(out), "\n"); lines != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%q said %q, want one line with %q", args, out, want)
		}
	}
	f("nonsense", nil, "--nonsense")
	f(`"extra"`, nil, "extra")
	f("--log-level", nil, "--log-level", "loud")
	f("--upstream", nil, "--upstream", "::")
	f("http", nil, "--upstream", "ftp://x/v1")
	f("RTD_TEST_UNSET", nil, "--api-key-env", "RTD_TEST_UNSET")
	f("provider", nil, "--provider", "nope")
	f("OPENAI_API_KEY", []string{"OPENAI_API_KEY="})
	f("REALTIME_POOL_SIZE", []string{"REALTIME_POOL_SIZE=many"})
	f("PORT", []string{"PORT=70000"})
	f("listen", nil, "--listen", "nowhere")
	f("client key", []string{"HOST=0.0.0.0"})
	f("in clear", nil, "--upstream", "ws://example.com/v1", "--api-key-env", "OPENAI_API_KEY")
	f("pool", nil, "--pool-size", "-1")
}

func TestABusyPortIsAnErrorNotAStart(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	cmd := exec.Command(os.Args[0], upstreamArgs(up, "--listen", up.Addr(), "--admin", "127.0.0.1:0", "--socket", t.TempDir()+"/s")...)
	cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), up.Addr()) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAStopWaitsForNobodyWhoHasSaidNothing(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, nil, upstreamArgs(up)...)
	silent, half := wiretest.Dial(t, p.listen), wiretest.Dial(t, p.listen)
	half.SendString("GET /v1/realtime")
	up.Conn(1)
	p.signal(syscall.SIGTERM)
	expectEnd(t, silent)
	expectEnd(t, half)
	p.expectExit(0)
}

// expectEnd waits for the end of a connection that rtd may not have accepted yet, or not have read all of: the kernel
// then ends it with a reset.
func expectEnd(t *testing.T, c *wiretest.Client) {
	t.Helper()
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.Timeout))
	n, err := c.Conn.Read(make([]byte, 1))
	if n > 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes and %v, want the end", n, err)
	}
}

func TestAStopAnswersThoseThatWaitForASession(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { c.ReadRequest(); _, _ = c.TryReadFrame() })
	p := startProcess(t, nil, upstreamArgs(up, "--pool-size", "0")...)
	c := wiretest.Dial(t, p.listen)
	c.SendString(wiretest.HS)
	up.Conn(1)
	p.signal(syscall.SIGTERM)
	h, body := c.ExpectStatus(http.StatusServiceUnavailable)
	if h.Get("Retry-After") == "" || !strings.Contains(body, `"draining"`) {
		t.Errorf("answer %v %s", h, body)
	}
	p.expectExit(0)
}

func TestAStopKeepsItsGraceWhateverAPeerDoes(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) { // answers no Close
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		for {
			if _, err := c.TryReadFrame(); err != nil {
				return
			}
		}
	})
	p := startProcess(t, nil, upstreamArgs(up, "--grace", "5s")...)
	c := wiretest.Connect(t, p.listen)
	c.ExpectText(wiretest.SessionCreated)
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	if took := time.Since(begun); took > 6900*time.Millisecond {
		t.Errorf("the stop took %v with a grace of 5 s and 2 s to close", took)
	}
}
