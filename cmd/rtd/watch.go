package main

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/files"
)

// watchInterval is how often the files that hold secrets and certificates are looked at. They are small and few, and
// what puts new ones there (a secret mount, a certificate agent) replaces directories as often as files, so that asking
// the kernel to tell would have to follow links.
const watchInterval = 10 * time.Second

// maxPause is how many looks are passed over at most between two tries to put files in force that a reload refused.
const maxPause = 30

// sums are files, by name, and what is in them; the zero sum for one that cannot be read.
type sums map[string][sha256.Size]byte

func (s sums) add(name string) {
	s[name] = [sha256.Size]byte{}
	if b, err := files.Read(name, files.MaxPEM); err == nil {
		s[name] = sha256.Sum256(b)
	}
}

// watchedFiles are what the configuration in force was made from. The configuration's own file is kept as it was: it is
// read again only when somebody says so, as an editor saves half-done work.
type watchedFiles struct {
	// reread makes the configuration of the text in force and of the files as they are; nil where there is no reload.
	reread func() (daemon.Config, error)

	mu    sync.Mutex
	text  []byte // of the configuration's file
	files sums
	tried sums // what a reload was tried with since, and was not accepted
	pause int  // looks between the last two tries
	left  int  // looks until the next
}

// accept says that a configuration is in force that was made from these.
func (w *watchedFiles) accept(text []byte, files sums) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text, w.files, w.tried = text, files, nil
}

func (w *watchedFiles) textInForce() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}

// due says whether it is time to reload: a file is not what the configuration in force was made from. When that did not
// help, it is time again as soon as a file changes, and now and then, ever more rarely, for a cause that shows in no file.
// A file that cannot be read is no cause: it is being replaced, or the reload that somebody asks for will say so.
func (w *watchedFiles) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, changed := sums{}, false
	for name, before := range w.files {
		now.add(name)
		changed = changed || now[name] != before && now[name] != [sha256.Size]byte{}
	}
	switch {
	case !changed:
		w.tried = nil
		return false
	case !maps.Equal(now, w.tried):
		w.tried, w.pause, w.left = now, 1, 1
		return true
	}
	if w.left--; w.left > 0 {
		return false
	}
	w.pause = min(2*w.pause, maxPause)
	w.left = w.pause
	return true
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
		if files.due() {
			_, _ = d.ReloadFrom(files.reread) // it logs how that went
		}
	}
}
