package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

// On a terminal a bar tells how far a run is, and is gone afterwards; results go elsewhere.
func TestBenchShowsABarOnATerminal(t *testing.T) {
	inside, outside := terminal(t, 60, 12)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	done := make(chan int)
	url := upstream(t, sim.Config{ResponseDelay: 10 * time.Millisecond})
	go func() {
		done <- execute(ctx, []string{"bench", "connect", "--url", url, "-n", "1000000", "-c", "2", "--max-late", "10s"}, &stdout, inside)
	}()
	seen := read(t, outside, " of 1000000 calls", 2)
	if !strings.Contains(seen, "\r[") {
		t.Errorf("no bar in %q", seen)
	}
	cancel()
	seen = read(t, outside, "interrupted after", 1)
	if line := seen[strings.LastIndexByte(seen, '\r')+1:]; !strings.Contains(seen, "\r\x1b[K") || strings.Contains(line, "of 1000000 calls\x1b") {
		t.Errorf("the bar stays: %q", seen)
	}
	if status := <-done; status != exitFailed || strings.ContainsAny(stdout.String(), "\x1b[") || !strings.Contains(stdout.String(), "target") {
		t.Errorf("status %d, stdout %q", status, &stdout)
	}
}
