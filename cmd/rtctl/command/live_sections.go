package command

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (l *live) pools() *grid {
	g := &grid{first: 16, columns: []column{
		{name: "POOL", min: 16}, {name: "STATE", min: 7}, {name: "WARM", right: true, min: 5}, {name: "DIALING", right: true, rank: 1}, {name: "ACTIVE", right: true},
		{name: "WAITING", right: true, rank: 3}, {name: "HIT RATE", right: true}, {name: "MISSES", right: true, rank: 2}, {name: "FAILED", right: true, rank: 1},
		{name: "HITS", right: true, rank: 5}, {name: "DIALS", right: true, rank: 4}, {name: "OLDEST", right: true, rank: 6}, {name: "ERROR", min: 8, rank: 3},
	}}
	for _, p := range l.shown.stats.GetPools() {
		style, state, class := plain, poolState(p), none
		switch {
		case p.GetBackoff() != nil:
			style, state, class = l.theme.alert, "back-off "+span(p.GetBackoff().GetNextAttemptIn()), p.GetBackoff().GetClass()
		case p.GetPaused():
			style = l.theme.faint
		}
		g.add(style, p.GetName(), state, number(p.GetIdle())+"/"+number(p.GetSize()), number(p.GetDialing()), number(p.GetActive()),
			number(p.GetWaiting()), share(p.GetHits(), p.GetHits()+p.GetMisses()), humanCount(p.GetMisses()), humanCount(total(p.GetDialsFailed())),
			humanCount(p.GetHits()), humanCount(p.GetDials()), span(p.GetOldestAge()), class)
	}
	return g
}

// livePhases are the phases by what an operator looks for first: what a client waits
// for, then what rtd has to do with it.
var livePhases = []rtdv1.Phase{
	rtdv1.Phase_PHASE_READY, rtdv1.Phase_PHASE_FIRST_AUDIO, rtdv1.Phase_PHASE_ADDED_UP, rtdv1.Phase_PHASE_ADDED_DOWN, rtdv1.Phase_PHASE_DIAL, rtdv1.Phase_PHASE_TURN,
	rtdv1.Phase_PHASE_FIRST_TEXT, rtdv1.Phase_PHASE_CREATED, rtdv1.Phase_PHASE_POOL_WAIT,
	rtdv1.Phase_PHASE_JITTER_IN_UP, rtdv1.Phase_PHASE_JITTER_OUT_UP, rtdv1.Phase_PHASE_JITTER_IN_DOWN, rtdv1.Phase_PHASE_JITTER_OUT_DOWN,
	rtdv1.Phase_PHASE_ACCEPT, rtdv1.Phase_PHASE_FIRST_FRAME, rtdv1.Phase_PHASE_UPSTREAM_READY,
	rtdv1.Phase_PHASE_DNS, rtdv1.Phase_PHASE_TCP, rtdv1.Phase_PHASE_TLS, rtdv1.Phase_PHASE_UPGRADE,
}

// phases has a row for whatever was measured since the start, also when the last
// minute has nothing of it: rows that come and go cannot be read.
func (l *live) phases() *grid {
	window, shown := "LAST MINUTE", l.shown.stats.GetLastMinute().GetPhases()
	if l.sinceStart {
		window, shown = "SINCE START", l.shown.stats.GetPhases()
	}
	g := &grid{sparks: "P90, 1 MINUTE", first: 15, columns: []column{
		{name: window, min: 15}, {name: "POOL", min: 4}, {name: "COUNT", right: true, min: 7, rank: 2},
		{name: "P50", right: true, min: 6}, {name: "P90", right: true, min: 6}, {name: "P99", right: true, min: 6}, {name: "MAX", right: true, min: 6, rank: 1},
	}}
	for _, phase := range livePhases {
		for _, p := range l.shown.stats.GetPhases() {
			if p.GetPhase() == phase {
				l.addPhase(g, phaseKey{phase, p.GetResult()}, shown)
			}
		}
	}
	return g
}

func (l *live) addPhase(g *grid, key phaseKey, shown []*rtdv1.PhaseSummary) {
	style, m := l.theme.faint, &rtdv1.Summary{}
	if i := slices.IndexFunc(shown, func(p *rtdv1.PhaseSummary) bool { return phaseKey{p.GetPhase(), p.GetResult()} == key }); i >= 0 {
		style, m = plain, shown[i].GetSummary()
	}
	spark := l.series(func(s sample) (float64, bool) {
		d, ok := s.phases[key]
		return float64(d), ok
	})
	g.addSpark(style, spark, phaseLabel(key.phase), poolResult(key.result), humanCount(m.GetCount()),
		span(m.GetP50()), span(m.GetP90()), span(m.GetP99()), span(m.GetMax()))
	g.rows[len(g.rows)-1].idle = m.GetCount() == 0
}

func (l *live) series(pick func(sample) (float64, bool)) func(int) []float64 {
	return func(width int) []float64 { return l.shown.history.series(width, pick) }
}

// phaseLabel is the phase as the plain screen calls it, if it does.
func phaseLabel(phase rtdv1.Phase) string {
	for _, shown := range screenPhases {
		if shown.phase == phase {
			return shown.label
		}
	}
	return strings.ReplaceAll(word(phase.String(), "PHASE_"), "_", " ")
}

func (l *live) rates() *grid {
	g := &grid{sparks: "1 MINUTE", first: 13, columns: []column{
		{name: "PER SECOND", min: 13}, {name: "NOW", right: true, min: 8}, {name: "1 MIN", right: true, min: 8},
	}}
	var now rates
	if h := l.shown.history; len(h) > 0 {
		now = h[len(h)-1].rates
	}
	minute := windowRates(l.shown.stats.GetLastMinute())
	for _, row := range []struct {
		label string
		pick  func(rates) float64
		text  func(float64) string
	}{
		{"sessions", func(r rates) float64 { return r.sessions }, humanRate},
		{"responses", func(r rates) float64 { return r.turns }, humanRate},
		{"frames up", func(r rates) float64 { return r.framesUp }, humanRate},
		{"frames down", func(r rates) float64 { return r.framesDown }, humanRate},
		{"bytes up", func(r rates) float64 { return r.bytesUp }, humanByteRate},
		{"bytes down", func(r rates) float64 { return r.bytesDown }, humanByteRate},
	} {
		spark := l.series(func(s sample) (float64, bool) { return row.pick(s.rates), true })
		g.addSpark(plain, spark, row.label, row.text(row.pick(now)), row.text(row.pick(minute)))
	}
	return g
}

func humanRate(v float64) string {
	switch {
	case math.IsNaN(v):
		return none
	case v > 0 && v < 100:
		return digits(v)
	}
	return humanCount(uint64(math.Round(v)))
}

func humanByteRate(v float64) string {
	if math.IsNaN(v) {
		return none
	}
	return humanBytes(math.Round(v))
}

func (l *live) memory() *grid {
	g := &grid{first: 14, columns: []column{{name: "MEMORY", min: 14}, {name: "NOW", right: true, min: 8}, {name: "PEAK", right: true, min: 8, rank: 1}}}
	m := l.shown.stats.GetMemory()
	if m == nil {
		m = &rtdv1.Memory{}
	}
	p := m.GetPeaks()
	if p == nil {
		p = &rtdv1.MemoryPeaks{}
	}
	g.add(plain, "resident", size(&m.RssBytes), size(&p.RssBytes))
	g.add(plain, "heap", size(&m.HeapBytes), size(&p.HeapBytes))
	g.add(plain, "kernel sockets", size(m.KernelSocketsBytes), size(p.KernelSocketsBytes))
	g.add(plain, "cgroup", size(m.CgroupBytes), size(p.CgroupBytes))
	g.add(plain, "per session", perSession(m), none)
	g.add(plain, "one more", marginal(m.GetMarginal()), none)
	g.add(plain, "stacks", size(&m.StacksBytes), size(&p.StacksBytes))
	return g
}

func (l *live) sessions(rows []sessionRow) *grid {
	g := &grid{first: 24, columns: []column{
		{name: "SESSION", min: 24}, {name: "POOL", min: 6}, {name: "AGE", right: true, min: 6}, {name: "QUIET", right: true, min: 6, rank: 2},
		{name: "UP/S", right: true, min: 8}, {name: "DOWN/S", right: true, min: 8}, {name: "AUDIO", right: true, min: 6, rank: 1},
		{name: "TURNS", right: true, rank: 3}, {name: "HELD", right: true, min: 8, rank: 4}, {name: "ADDED", right: true, min: 6, rank: 5},
		{name: "STATE", min: 7, rank: 6}, {name: "MODEL", min: 8, rank: 7}, {name: "KEY", min: 6, rank: 8}, {name: "CLIENT", min: 15, rank: 9}, {name: "TARGET", min: 8, rank: 10},
	}}
	for _, r := range rows {
		style := plain
		if r.GetState() != rtdv1.SessionState_SESSION_STATE_OPEN {
			style = l.theme.faint
		}
		g.add(style, r.GetId(), poolResult(r.GetResult()), span(r.GetAge()), span(r.GetQuiet()), humanByteRate(r.up), humanByteRate(r.down),
			firstAudio(r.Session), humanCount(r.GetResponses().GetStarted()), humanBytes(float64(r.GetHeldBytes())),
			span(durationpb.New(sessionAdded(r.Session))), sessionState(r.Session), orNone(r.GetModel()), orNone(r.GetKeyName()), r.GetClientAddress(), r.GetTarget())
	}
	return g
}

func firstAudio(s *rtdv1.Session) string {
	m := s.GetResponses().GetFirstAudio()
	if m.GetCount() == 0 {
		return none
	}
	return span(m.GetLast())
}

// totals is what there is of sessions in one line, trouble first: the end of it may be cut.
func totals(s *rtdv1.Stats) string {
	t := s.GetSessions()
	r := t.GetResponseTotals()
	return fmt.Sprintf("refused %s  errors %s  lost %s  interrupted %s  responses %s  accepted %s", humanCount(total(t.GetRefused())), humanCount(r.GetErrors()),
		humanCount(r.GetLost()), humanCount(r.GetInterrupted()), humanCount(t.GetResponses()), humanCount(t.GetAccepted()))
}
