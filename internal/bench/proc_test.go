package bench

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRollup(t *testing.T) {
	n, err := rollup([]byte("00400000-7ffc Rss: no\nRss:                1234 kB\nPss:                 900 kB\n"))
	if err != nil || n != 1234<<10 {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "Pss: 1 kB\n", "Rss:\n", "Rss: many kB\n"} {
		if n, err := rollup([]byte(text)); err == nil {
			t.Errorf("%q gives %d", text, n)
		}
	}
}

// A proxy may be several processes: all of its group count, and no other.
func TestAGroupIsMeasuredAsAWhole(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	start := func(script string) group {
		t.Helper()
		cmd := exec.Command("sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		return group(cmd.Process.Pid)
	}
	await := func(g group, n int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if pids, _ := g.processes(); len(pids) == n {
				return
			}
			if time.Now().After(deadline) {
				pids, err := g.processes()
				t.Fatalf("processes %q, %v, want %d", pids, err, n)
			}
		}
	}
	three := start("sleep 60 & sleep 60 & wait")
	await(three, 3)
	if rss, err := three.rss(); err != nil || rss < 100<<10 || rss > 100<<20 {
		t.Errorf("memory of three small programs: %d bytes, %v", rss, err)
	}
	busy := start("while :; do :; done")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		cpu, err := busy.cpu()
		if err != nil {
			t.Fatal(err)
		}
		if cpu > 50*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a busy loop has used %v", cpu)
		}
	}
	if cpu, err := three.cpu(); err != nil || cpu > time.Second {
		t.Errorf("three sleepers have used %v, %v", cpu, err)
	}
}

func TestAGroupThatHasEnded(t *testing.T) {
	if _, err := group(1 << 30).rss(); err == nil {
		t.Error("a group that does not exist has memory")
	}
}

func TestAPeerThatIsNotInstalledIsNamed(t *testing.T) {
	if _, err := FindPeer("rtd-test-no-such-proxy"); err == nil || !strings.Contains(err.Error(), "apt-get install haproxy nginx-light") {
		t.Errorf("%v", err)
	}
}

func TestSettingsOfTheCallerDoNotReachARig(t *testing.T) {
	got := withoutSettings([]string{"PATH=/bin", "RTD_SOCKET=x", "OPENAI_API_KEY=sk-test-x", "REALTIME_POOL_SIZE=1", "PORT=1", "HOST=h", "LITELLM_MASTER_KEY=k", "HOSTNAME=n", "GOGC=50"})
	if strings.Join(got, " ") != "PATH=/bin HOSTNAME=n GOGC=50" {
		t.Errorf("%q", got)
	}
}

func TestFindRTDSaysWhatItLooksFor(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // neither rtd nor go
	if _, err := FindRTD(t.Context(), "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "--rtd") {
		t.Errorf("%v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := FindRTD(t.Context(), self, t.TempDir()); err != nil || path != self {
		t.Errorf("%s, %v", path, err)
	}
}
