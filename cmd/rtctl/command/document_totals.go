package command

import rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"

type totalsDocument struct {
	Started     uint64 `json:"started"`
	Completed   uint64 `json:"completed"`
	Cancelled   uint64 `json:"cancelled"`
	Failed      uint64 `json:"failed"`
	Incomplete  uint64 `json:"incomplete"`
	Interrupted uint64 `json:"interrupted"`
	Lost        uint64 `json:"lost"`
	Errors      uint64 `json:"errors"`
}

func documentTotals(t *rtdv1.ResponseTotals) totalsDocument {
	return totalsDocument{
		t.GetStarted(), t.GetCompleted(), t.GetCancelled(), t.GetFailed(), t.GetIncomplete(), t.GetInterrupted(), t.GetLost(), t.GetErrors(),
	}
}

type windowDocument struct {
	Length    *float64                              `json:"length_ms"`
	Phases    map[string]map[string]summaryDocument `json:"phases"`
	Accepted  uint64                                `json:"accepted"`
	Ended     uint64                                `json:"ended"`
	Responses totalsDocument                        `json:"responses"`
	Usage     usageDocument                         `json:"usage"`
	Up        windowFlowDocument                    `json:"up"`
	Down      windowFlowDocument                    `json:"down"`
}

type windowFlowDocument struct {
	Frames   uint64 `json:"frames"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

func documentWindow(w *rtdv1.Window) *windowDocument {
	if w == nil {
		return nil
	}
	flow := func(f *rtdv1.Flow) windowFlowDocument {
		return windowFlowDocument{f.GetFrames(), f.GetMessages(), f.GetBytes()}
	}
	return &windowDocument{
		Length: ms(w.GetLength()), Phases: documentPhases(w.GetPhases()), Accepted: w.GetAccepted(), Ended: w.GetEnded(),
		Responses: documentTotals(w.GetResponses()), Usage: documentUsage(w.GetUsage()), Up: flow(w.GetUp()), Down: flow(w.GetDown()),
	}
}

type targetDocument struct {
	Target    string                                `json:"target"`
	Accepted  uint64                                `json:"accepted"`
	Ended     uint64                                `json:"ended"`
	Hits      uint64                                `json:"hits"`
	Misses    uint64                                `json:"misses"`
	Bypasses  uint64                                `json:"bypasses"`
	Responses totalsDocument                        `json:"responses"`
	Usage     usageDocument                         `json:"usage"`
	Phases    map[string]map[string]summaryDocument `json:"phases"`
}

func documentTarget(t *rtdv1.TargetStats) targetDocument {
	return targetDocument{
		Target: t.GetTarget(), Accepted: t.GetAccepted(), Ended: t.GetEnded(),
		Hits: t.GetHits(), Misses: t.GetMisses(), Bypasses: t.GetBypasses(),
		Responses: documentTotals(t.GetResponses()), Usage: documentUsage(t.GetUsage()), Phases: documentPhases(t.GetPhases()),
	}
}

type marginalDocument struct {
	PerSession float64 `json:"per_session_bytes"`
	Low        float64 `json:"low_bytes"`
	High       float64 `json:"high_bytes"`
	Points     uint32  `json:"points"`
	From       uint32  `json:"from_sessions"`
	To         uint32  `json:"to_sessions"`
}

func documentMarginal(m *rtdv1.MarginalMemory) *marginalDocument {
	if m == nil {
		return nil
	}
	return &marginalDocument{m.GetPerSessionBytes(), m.GetLowBytes(), m.GetHighBytes(), m.GetPoints(), m.GetFromSessions(), m.GetToSessions()}
}

type peaksDocument struct {
	RSS           uint64  `json:"rss_bytes"`
	Heap          uint64  `json:"heap_bytes"`
	Stacks        uint64  `json:"stacks_bytes"`
	KernelSockets *uint64 `json:"kernel_sockets_bytes"`
	Cgroup        *uint64 `json:"cgroup_bytes"`
	Sessions      uint32  `json:"sessions"`
}

func documentPeaks(p *rtdv1.MemoryPeaks) peaksDocument {
	if p == nil {
		return peaksDocument{}
	}
	return peaksDocument{p.RssBytes, p.HeapBytes, p.StacksBytes, p.KernelSocketsBytes, p.CgroupBytes, p.Sessions}
}

type turnDocument struct {
	Start       *float64 `json:"start_ms"`
	Created     *float64 `json:"created_ms"`
	FirstText   *float64 `json:"first_text_ms"`
	FirstAudio  *float64 `json:"first_audio_ms"`
	Done        *float64 `json:"done_ms"`
	Interrupted bool     `json:"interrupted"`
}

func documentTurn(t *rtdv1.TurnMarks) *turnDocument {
	if t == nil {
		return nil
	}
	return &turnDocument{ms(t.GetStart()), ms(t.GetCreated()), ms(t.GetFirstText()), ms(t.GetFirstAudio()), ms(t.GetDone()), t.GetInterrupted()}
}

type jitterDocument struct {
	In  measureDocument `json:"in"`
	Out measureDocument `json:"out"`
	Gap *float64        `json:"gap_ms"`
}

func documentJitter(j *rtdv1.Jitter) jitterDocument {
	return jitterDocument{documentMeasure(j.GetIn()), documentMeasure(j.GetOut()), ms(j.GetGap())}
}
