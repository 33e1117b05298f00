package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startWait = 20 * time.Second
	stopWait  = 5 * time.Second
)

// process is a program that runs for as long as its Rig. What it says goes to a file, so that nobody has to read along.
type process struct {
	name   string
	cmd    *exec.Cmd
	said   string // path
	exited chan struct{}
}

// startProcess runs a program of its own process group: a Ctrl-C in the terminal is for the generator, which ends the
// others once it has measured.
func startProcess(dir, name, program string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), said: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	said, err := os.Create(p.said)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	p.cmd.Stdout, p.cmd.Stderr = said, said
	p.cmd.Env = withoutSettings(os.Environ())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ends with what stop or await find out by themselves
		close(p.exited)
	}()
	return p, nil
}

// withoutSettings leaves out what would configure rtd behind the back of the run.
func withoutSettings(env []string) []string {
	var rest []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "RTD_"), strings.HasPrefix(name, "OPENAI_"), strings.HasPrefix(name, "REALTIME_"),
			name == "LITELLM_MASTER_KEY", name == "HOST", name == "PORT":
		default:
			rest = append(rest, e)
		}
	}
	return rest
}

// stop ends the process: politely, then not.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	select {
	case <-p.exited:
	case <-time.After(stopWait):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// output is what the process said.
func (p *process) output() []byte {
	data, _ := os.ReadFile(p.said) // an empty answer says as much as an error
	return data
}

// await asks again and again until ready is true. The error has the last line of what the process said.
func (p *process) await(ctx context.Context, ready func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait, errors.New("it is not ready in time"))
	defer cancel()
	for {
		ok, err := ready(ctx)
		if err == nil && ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return p.failed(context.Cause(ctx))
		case <-p.exited:
			return p.failed(errors.New("it ended at once"))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) failed(err error) error {
	lines := bytes.Split(bytes.TrimSpace(p.output()), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		return fmt.Errorf("%s: %w: %.400s", p.name, err, last)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// firstLine is the line that the process begins with, once it is there.
func (p *process) firstLine(ctx context.Context) (line string, err error) {
	err = p.await(ctx, func(context.Context) (bool, error) {
		text, _, whole := bytes.Cut(p.output(), []byte("\n"))
		line = string(text)
		return whole, nil
	})
	return line, err
}

// FindRTD returns the path of rtd: given if that is not empty, else the rtd beside this program, else that of PATH, else
// one built from the source tree of the working directory into dir.
func FindRTD(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		if _, err := exec.LookPath(given); err != nil {
			return "", fmt.Errorf("--rtd: %w", err)
		}
		return given, nil
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), "rtd"); isProgram(beside) {
			return beside, nil
		}
	}
	if path, err := exec.LookPath("rtd"); err == nil {
		return path, nil
	}
	built := filepath.Join(dir, "rtd")
	build := exec.CommandContext(ctx, "go", "build", "-o", built, "github.com/rtd-project/rtd/cmd/rtd")
	var said bytes.Buffer
	build.Stdout, build.Stderr = io.Discard, &said
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("rtd is neither beside rtctl nor in PATH, and cannot be built here (%w %.300s): name it with --rtd PATH, or run `make build` in the source tree and then bin/rtctl",
			err, bytes.TrimSpace(said.Bytes()))
	}
	return built, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
