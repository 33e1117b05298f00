package main

import (
	"context"
	"crypto/sha256"
	"os"
	"sync"
	"time"

	"github.com/rtd-project/rtd/daemon"
)

// watchInterval is how often the files that hold secrets and certificates are looked at. They are small and few, and
// what puts new ones there (a secret mount, a certificate agent) replaces directories as often as files, so that asking
// the kernel to tell would have to follow links.
const watchInterval = 10 * time.Second

// watchedFiles are the files that the configuration in force was made from, beside its own. The configuration itself is
// read again only when somebody says so: an editor saves half-done work.
type watchedFiles struct {
	mu   sync.Mutex
	sums map[string][sha256.Size]byte
}

// set remembers the files as they are now.
func (w *watchedFiles) set(names []string) {
	sums := sumFiles(names)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums = sums
}

// changed says whether one of them is not what it was when last asked. One that cannot be read is as it was: it is being
// replaced, or the reload that somebody asks for will say so.
func (w *watchedFiles) changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.sums {
		names = append(names, name)
	}
	changed := false
	for name, sum := range sumFiles(names) {
		changed = changed || sum != w.sums[name]
		w.sums[name] = sum
	}
	return changed
}

func sumFiles(names []string) map[string][sha256.Size]byte {
	sums := map[string][sha256.Size]byte{}
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			sums[name] = sha256.Sum256(b)
		}
	}
	return sums
}

// reloadOnChange reloads d when one of files changes, until ctx ends.
func reloadOnChange(ctx context.Context, d *daemon.Daemon, files *watchedFiles, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if files.changed() {
			_, _ = d.ReloadFromSource() // it logs how that went
		}
	}
}
