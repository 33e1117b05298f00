package command

import (
	"fmt"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// memoryTable says where the memory is. The rows do not sum up: they look at it from different sides.
func memoryTable(m *rtdv1.Memory) *table {
	if m == nil {
		m = &rtdv1.Memory{}
	}
	p := m.GetPeaks()
	if p == nil {
		p = &rtdv1.MemoryPeaks{}
	}
	t := newTable("MEMORY", ">NOW", ">PEAK", "")
	t.add("resident", size(&m.RssBytes), size(&p.RssBytes), fmt.Sprintf("%s before the first session", size(&m.BaselineBytes)))
	t.add("proportional", size(m.PssBytes), none, "")
	t.add("heap", size(&m.HeapBytes), size(&p.HeapBytes), fmt.Sprintf("and %s idle", size(&m.HeapIdleBytes)))
	t.add("stacks", size(&m.StacksBytes), size(&p.StacksBytes), fmt.Sprintf("%s goroutines", number(m.GetGoroutines())))
	t.add("runtime", size(&m.RuntimeBytes), none, "")
	t.add("kernel sockets", size(m.KernelSocketsBytes), size(p.KernelSocketsBytes), fmt.Sprintf("not resident; the whole host's TCP %s", size(m.HostTcpBytes)))
	t.add("cgroup", size(m.CgroupBytes), size(p.CgroupBytes), limit(m.CgroupLimitBytes))
	t.add("per session", perSession(m), none, perSessionNote(m))
	t.add("one more", marginal(m.GetMarginal()), none, marginalNote(m.GetMarginal()))
	return t
}

func size(n *uint64) string {
	if n == nil {
		return none
	}
	return humanBytes(float64(*n))
}

func limit(n *uint64) string {
	if n == nil {
		return "no limit"
	}
	return "limit " + size(n)
}

func perSession(m *rtdv1.Memory) string {
	if m.PerSessionBytes == nil {
		return none
	}
	return humanBytes(m.GetPerSessionBytes())
}

func perSessionNote(m *rtdv1.Memory) string {
	if m.PerSessionBytes == nil {
		return ""
	}
	return fmt.Sprintf("resident over the baseline, of %s warm and live", humanCount(uint64(m.GetSessions())))
}

func marginal(m *rtdv1.MarginalMemory) string {
	if m == nil {
		return none
	}
	return humanBytes(m.GetPerSessionBytes())
}

func marginalNote(m *rtdv1.MarginalMemory) string {
	if m == nil {
		return "not known before the load has varied"
	}
	return fmt.Sprintf("%s to %s (95%%), between %s and %s sessions", humanBytes(max(0, m.GetLowBytes())), humanBytes(m.GetHighBytes()),
		humanCount(uint64(m.GetFromSessions())), humanCount(uint64(m.GetToSessions())))
}
