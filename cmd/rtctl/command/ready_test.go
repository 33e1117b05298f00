package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadyScreens(t *testing.T) {
	golden(t, "ready.txt", serve(t, newFake(warmPool())))
	warming := newFake(warmPool())
	warming.info.Ready, warming.info.NotReadyReason, warming.info.Warm = false, "3 of 64 sessions warm", 3
	golden(t, "ready-not.txt", serve(t, warming))
	golden(t, "ready-down.txt", &fake{socket: filepath.Join(t.TempDir(), "rtd.sock")})
}

func TestReadyWaits(t *testing.T) {
	f := newFake(warmPool())
	f.info.Ready, f.info.NotReadyReason = false, "starting"
	serve(t, f)
	time.AfterFunc(250*time.Millisecond, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.info = newFake().info // the one before is still being sent
	})
	var stdout, stderr bytes.Buffer
	begun := time.Now()
	status := execute(t.Context(), []string{"--endpoint", f.socket, "ready", "--timeout", "20s"}, &stdout, &stderr)
	if took := time.Since(begun); status != 0 || took < 200*time.Millisecond || took > 10*time.Second {
		t.Errorf("status %d after %v: %s%s", status, took, &stdout, &stderr)
	}
	if text := stdout.String(); text != "ready, 64 of 64 warm\n" {
		t.Errorf("it says %q", text)
	}
}

// A daemon that is not there yet is waited for, and one that refuses its caller is not.
func TestReadyWaitsForADaemonToCome(t *testing.T) {
	f := &fake{socket: filepath.Join(t.TempDir(), "rtd.sock")}
	var stdout, stderr bytes.Buffer
	begun := time.Now()
	status := execute(t.Context(), []string{"--endpoint", f.socket, "ready", "--timeout", "300ms"}, &stdout, &stderr)
	if took := time.Since(begun); status != exitFailed || took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("status %d after %v", status, took)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, f.socket) {
		t.Errorf("it says %q", text)
	}
}
