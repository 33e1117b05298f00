package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// run is one command line as a shell shows it: the output, then what went to stderr
// behind "! ", then the exit status behind "? " unless it is 0.
func run(line, socket string) string {
	var stdout, stderr bytes.Buffer
	args := split(line)
	if !slices.Contains(args, "--endpoint") {
		args = append([]string{"--endpoint", socket}, args...)
	}
	status := execute(context.Background(), args, &stdout, &stderr)
	var b strings.Builder
	b.WriteString(strings.TrimSpace("$ rtctl "+line) + "\n" + stdout.String())
	for text := range strings.Lines(stderr.String()) {
		b.WriteString("! " + text)
	}
	if status != 0 {
		fmt.Fprintf(&b, "? %d\n", status)
	}
	return strings.ReplaceAll(b.String(), socket, "SOCKET")
}

// split takes a command line apart as a shell would, but knows only double quotes.
func split(line string) []string {
	var args []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	return args
}

// golden runs the command lines in a file one after the other against f and compares
// the whole.
func golden(t *testing.T, name string, f *fake) {
	t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.Lines(string(want)) {
		if line, ok := strings.CutPrefix(text, "$ rtctl"); ok {
			got = append(got, run(strings.TrimSpace(line), f.socket))
		}
	}
	if len(got) == 0 {
		t.Fatalf("%s holds no command", path)
	}
	all := strings.Join(got, "\n")
	if *update {
		if err := os.WriteFile(path, []byte(all), 0o600); err != nil { // the mode of a file that is there stays
			t.Fatal(err)
		}
		return
	}
	if all != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", path, all)
	}
}

func TestScreens(t *testing.T) {
	golden(t, "one-pool.txt", serve(t, newFake(warmPool())))
	golden(t, "two-pools.txt", serve(t, newFake(failingPool(), warmPool())))
	golden(t, "nothing-yet.txt", serve(t, emptyFake()))
}

func TestSessionScreens(t *testing.T) {
	golden(t, "sessions.txt", serve(t, newFake(warmPool())))
	golden(t, "session-list.txt", serve(t, newFake(warmPool())))
}

func TestPoolVerbs(t *testing.T) {
	golden(t, "pool-verbs.txt", serve(t, newFake(warmPool())))
}

func TestDrainScreens(t *testing.T) {
	golden(t, "drain.txt", serve(t, newFake(warmPool())))

	forced := newFake(warmPool())
	forced.drain[2] = &rtdv1.DrainDaemonResponse{
		State: rtdv1.DaemonState_DAEMON_STATE_DRAINED, Drain: &rtdv1.Drain{Ended: 1, Forced: 2, Elapsed: durationpb.New(3 * time.Second)},
	}
	forced.info.Ready, forced.info.NotReadyReason = false, "draining"
	forced.info.State, forced.info.Drain = rtdv1.DaemonState_DAEMON_STATE_DRAINING, forced.drain[1].GetDrain()
	golden(t, "drain-forced.txt", serve(t, forced))
}

// Nothing that was begun gets done: the waiting verbs give up in time and say so.
func TestPatienceEnds(t *testing.T) {
	stuck := newFake(warmPool())
	stuck.stuck, stuck.drain = true, stuck.drain[:1]
	golden(t, "stuck.txt", serve(t, stuck))
}

func TestDaemonDown(t *testing.T) {
	golden(t, "down.txt", &fake{socket: filepath.Join(t.TempDir(), "rtd.sock")})
}

func TestWrongArguments(t *testing.T) {
	golden(t, "usage.txt", serve(t, newFake(warmPool())))
}
