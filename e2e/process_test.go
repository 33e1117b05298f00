package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
)

// programs is where TestMain put rtd and rtctl. Empty: the tests are skipped.
var programs string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if os.Getenv("RTD_E2E") == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "rtd-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../cmd/rtd", "../cmd/rtctl")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	programs = dir
	return m.Run()
}

func needPrograms(t *testing.T) {
	t.Helper()
	if programs == "" {
		t.Skip("needs the SDK packages: run `make e2e`")
	}
}

// process is a program of ours that runs until the test ends, with everything it says.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone and its output read

	mu    sync.Mutex
	lines []string
	said  chan struct{} // holds one token when there are new lines
}

// start runs a program. It is stopped with the test, by SIGTERM, and has to exit 0 in time.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.Command(filepath.Join(programs, program), args...),
		exited: make(chan struct{}),
		said:   make(chan struct{}, 1),
	}
	// Nothing of the caller's own set-up may reach the programs.
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + t.TempDir(), upstreamKeyEnv + "=" + upstreamKey}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(output)
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *process) read(output io.Reader) {
	defer close(p.exited)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
		select {
		case p.said <- struct{}{}:
		default:
		}
	}
	_ = p.cmd.Wait() // stop judges ProcessState
}

// await returns the first line that match accepts, from the start of the process on.
func (p *process) await(t *testing.T, what string, match func(line string) bool) string {
	t.Helper()
	deadline, gone := time.After(startTimeout), false
	for next := 0; ; {
		p.mu.Lock()
		fresh := p.lines[next:]
		p.mu.Unlock()
		for _, line := range fresh {
			if match(line) {
				return line
			}
		}
		next += len(fresh)
		if gone {
			t.Fatalf("%s exited before it said %s:\n%s", filepath.Base(p.cmd.Path), what, p.output())
		}
		select {
		case <-p.said:
		case <-p.exited:
			gone = true // look once more at what came last
		case <-deadline:
			t.Fatalf("%s did not say %s in %v:\n%s", filepath.Base(p.cmd.Path), what, startTimeout, p.output())
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// stop asks the process to end and checks that it does, in time and with 0. It may be called twice.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		t.Errorf("%s ignored SIGTERM for %v", filepath.Base(p.cmd.Path), stopTimeout)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-p.exited
	}
	if state := p.cmd.ProcessState; state == nil || state.ExitCode() != 0 {
		t.Errorf("%s ended with %v, want exit status 0", filepath.Base(p.cmd.Path), state)
	}
	if t.Failed() {
		t.Logf("%s said:\n%s", filepath.Base(p.cmd.Path), p.output())
	}
}

// daemon is a running rtd.
type daemon struct {
	*process
	listen, socket string
}

// startDaemon runs rtd on free ports and waits until it says that it is ready.
func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := &daemon{socket: filepath.Join(t.TempDir(), "rtd.sock")}
	d.process = start(t, "rtd", append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--socket", d.socket}, args...)...)
	d.await(t, "ready", func(line string) bool {
		var ready struct {
			Message string `json:"@message"`
			Listen  string `json:"listen"`
		}
		if json.Unmarshal([]byte(line), &ready) != nil || ready.Message != "ready" {
			return false
		}
		d.listen = ready.Listen
		return true
	})
	return d
}

// base is where clients find d; SDKs want /v1 behind it.
func (d *daemon) base() string { return "http://" + d.listen }

// rtctl runs a command against d and returns its output. It has to exit 0.
func (d *daemon) rtctl(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stopTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "rtctl"), append([]string{"--endpoint", d.socket}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("rtctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
