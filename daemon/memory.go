package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// memoryMeter reads what the process holds. The arithmetic is in internal/stats.
type memoryMeter struct {
	baseline uint64

	mu         sync.Mutex // guards what follows
	regression stats.Regression
	peaks      rtdv1.MemoryPeaks
	look       footprint
	nextLook   time.Time
	charged    *memoryGroup // nil: no cgroup says
	limited    *memoryGroup // nil: none is
}

// footprint is what costs more to read the more there is. nil where the system does not tell.
type footprint struct {
	pss, sockets, hostTCP *uint64
	files                 *uint32
}

// lookShare bounds the share of a processor that looking at the footprint takes: one in so many.
const lookShare = 1000

// setBaseline notes the resident set before the first session. What start-up left behind is given back first.
func (m *memoryMeter) setBaseline() {
	debug.FreeOSMemory()
	m.baseline = m.read(0).RSS
	m.charged, m.limited = chargedGroup("/"), findMemoryGroup("/")
	m.sample(0)
}

// read samples the process; sessions is what it holds at this moment, warm ones included.
func (m *memoryMeter) read(sessions int) stats.Memory {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	now := stats.Memory{RSS: residentBytes(), Heap: value(0), Stacks: value(1), HeapIdle: value(2) + value(3)}
	now.Runtime = value(5) - value(4) - now.Heap - now.Stacks - now.HeapIdle
	return now.WithSessions(m.baseline, sessions)
}

// sample takes the figures of one second into the peaks and the regression.
func (m *memoryMeter) sample(sessions int) {
	now := m.read(sessions)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(now)
}

// note is called with the lock held.
func (m *memoryMeter) note(now stats.Memory) {
	if now.RSS > 0 {
		m.regression.Add(now.Sessions, now.RSS)
	}
	m.lookAgain(time.Now())
	p := &m.peaks
	p.RssBytes, p.HeapBytes, p.StacksBytes = max(p.RssBytes, now.RSS), max(p.HeapBytes, now.Heap), max(p.StacksBytes, now.Stacks)
	p.Sessions = max(p.Sessions, uint32(now.Sessions))
	raise(&p.KernelSocketsBytes, m.look.sockets)
	raise(&p.CgroupBytes, m.charge())
}

// raise makes *high at least v, unless that is not known.
func raise(high **uint64, v *uint64) {
	if v != nil && (*high == nil || **high < *v) {
		*high = new(*v)
	}
}

// charge is what the cgroup is charged, nil where it does not say.
func (m *memoryMeter) charge() *uint64 {
	if m.charged == nil {
		return nil
	}
	return known(m.charged.read(m.charged.files.usage))
}

// known is nil for 0, which only a figure that could not be read is.
func known(v uint64) *uint64 {
	if v == 0 {
		return nil
	}
	return &v
}

// lookAgain looks at the footprint unless that was done a short while ago. It is called with the lock held.
func (m *memoryMeter) lookAgain(now time.Time) {
	if now.Before(m.nextLook) {
		return
	}
	m.look = readFootprint()
	end := time.Now()
	m.nextLook = end.Add(max(500*time.Millisecond, lookShare*end.Sub(now)))
}

func readFootprint() (f footprint) {
	if b, err := os.ReadFile("/proc/self/smaps_rollup"); err == nil {
		if pss, err := stats.ParseRollup(b); err == nil {
			f.pss = &pss
		}
	}
	if b, err := os.ReadFile("/proc/net/sockstat"); err == nil {
		if tcp, err := stats.ParseSockstat(b, os.Getpagesize()); err == nil {
			f.hostTCP = &tcp
		}
	}
	f.files, f.sockets = readDescriptors()
	return f
}

// message is everything there is to say about memory now. sessions have an upstream, clients of them have a client too.
func (m *memoryMeter) message(sessions, clients int) *rtdv1.Memory {
	now := m.read(sessions)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(now)
	msg := &rtdv1.Memory{
		RssBytes: now.RSS, PssBytes: m.look.pss,
		HeapBytes: now.Heap, HeapIdleBytes: now.HeapIdle, StacksBytes: now.Stacks, RuntimeBytes: now.Runtime,
		KernelSocketsBytes: m.look.sockets, HostTcpBytes: m.look.hostTCP, CgroupBytes: m.charge(),
		BaselineBytes: now.Baseline, Sessions: uint32(now.Sessions), SessionStateBytes: uint64(clients) * stateBytes(&progress{}),
		Goroutines: uint32(runtime.NumGoroutine()), OpenFiles: m.look.files,
		Peaks: &rtdv1.MemoryPeaks{
			RssBytes: m.peaks.RssBytes, HeapBytes: m.peaks.HeapBytes, StacksBytes: m.peaks.StacksBytes,
			KernelSocketsBytes: m.peaks.KernelSocketsBytes, CgroupBytes: m.peaks.CgroupBytes, Sessions: m.peaks.Sessions,
		},
	}
	if m.limited != nil {
		msg.CgroupLimitBytes = known(m.limited.limit)
	}
	if now.Sessions > 0 {
		msg.PerSessionBytes = new(now.PerSession)
	}
	if fit, ok := m.regression.Fit(); ok {
		msg.Marginal = &rtdv1.MarginalMemory{
			PerSessionBytes: fit.PerSession, LowBytes: fit.Low, HighBytes: fit.High,
			Points: uint32(fit.Points), FromSessions: uint32(fit.From), ToSessions: uint32(fit.To),
		}
	}
	return msg
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
