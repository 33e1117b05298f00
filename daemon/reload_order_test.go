package daemon

import (
	"sync/atomic"
	"testing"
	"time"
)

// A reload that is slow to read, and was asked for first, does not undo one that was asked for later.
func TestAReloadInFlightDoesNotUndoALaterOne(t *testing.T) {
	up := newKeyLog(t)
	var r *rig
	var reads atomic.Int32
	later := make(chan error, 1)
	var written atomic.Int64 // the size in the file
	written.Store(1)
	r = startRig(t, up.Upstream, 1, func(c *Config) {
		c.Source = func() (Config, error) {
			size := int(written.Load())
			if reads.Add(1) == 1 {
				written.Store(2)
				go func() {
					_, err := r.ReloadFromSource()
					later <- err
				}()
				select {
				case err := <-later: // it must not be done before this one
					later <- err
				case <-time.After(100 * time.Millisecond):
				}
			}
			return r.changed(func(c *Config) { c.Routes[0].Pool.Size = size }), nil
		}
	})
	if _, err := r.ReloadFromSource(); err != nil {
		t.Fatal(err)
	}
	if err := <-later; err != nil {
		t.Fatal(err)
	}
	if size := r.current().cfg.Routes[0].Pool.Size; size != 2 {
		t.Errorf("the size in force is %d, want 2, which was read last", size)
	}
}
