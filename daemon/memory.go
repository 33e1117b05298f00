package daemon

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
)

// memoryMeter reads what the process holds. The arithmetic is in internal/stats.
type memoryMeter struct{ baseline uint64 }

// setBaseline notes the resident set before the first session. What start-up left behind is given back first.
func (m *memoryMeter) setBaseline() {
	debug.FreeOSMemory()
	m.baseline = m.read(0).RSS
}

// read samples the process; sessions is what it holds at this moment, warm ones included.
func (m *memoryMeter) read(sessions int) stats.Memory {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	now := stats.Memory{RSS: residentBytes(), Heap: samples[0].Value.Uint64(), Stacks: samples[1].Value.Uint64()}
	return now.WithSessions(m.baseline, sessions)
}

// residentBytes is the resident set of this process, 0 where /proc does not tell.
func residentBytes() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	rss, err := stats.ParseStatm(b, os.Getpagesize())
	if err != nil {
		return 0
	}
	return rss
}

// trimAfter is how many new sessions are worth a trim: their handshakes left that much garbage behind.
const trimAfter = 256

// trim gives the memory of a burst of handshakes back to the system once the burst is over, until stop is closed.
func (d *Daemon) trim(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var trimmed, before uint64
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := d.accepted.Load()
		if now == before && now-trimmed >= trimAfter {
			debug.FreeOSMemory()
			trimmed = now
		}
		before = now
	}
}
