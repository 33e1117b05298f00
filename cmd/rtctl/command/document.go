package command

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// The documents of -o json. Their keys are stable: they are added to, never renamed
// or removed. Durations are milliseconds (_ms), sizes bytes (_bytes), times RFC 3339;
// null is "not known" or "not there".

type poolDocument struct {
	Key            string            `json:"key"`
	Name           string            `json:"name"`
	Target         string            `json:"target"`
	Preset         string            `json:"preset"`
	Size           uint32            `json:"size"`
	MaxSize        uint32            `json:"max_size"`
	MaxConnections uint32            `json:"max_connections"`
	MaxDialing     uint32            `json:"max_dialing"`
	Paused         bool              `json:"paused"`
	Idle           uint32            `json:"idle"`
	Dialing        uint32            `json:"dialing"`
	Active         uint32            `json:"active"`
	Closing        uint32            `json:"closing"`
	Recycling      uint32            `json:"recycling"`
	Waiting        uint32            `json:"waiting"`
	Takes          uint64            `json:"takes"`
	Hits           uint64            `json:"hits"`
	Misses         uint64            `json:"misses"`
	Dials          uint64            `json:"dials"`
	DialsFailed    map[string]uint64 `json:"dials_failed"`
	Evicted        map[string]uint64 `json:"evicted"`
	Skipped        map[string]uint64 `json:"skipped"`
	Blocked        string            `json:"blocked"`
	FailuresInRow  uint32            `json:"failures_in_row"`
	DialLimit      uint32            `json:"dial_limit"`
	Backoff        *backoffDocument  `json:"backoff"`
	LastFailure    *failureDocument  `json:"last_failure"`
	OldestAge      *float64          `json:"oldest_age_ms"`
	YoungestAge    *float64          `json:"youngest_age_ms"`
	NextRetirement *float64          `json:"next_retirement_in_ms"`
}

type backoffDocument struct {
	Class       string   `json:"class"`
	NextAttempt *float64 `json:"next_attempt_in_ms"`
}

type failureDocument struct {
	Class   string   `json:"class"`
	Message string   `json:"message"`
	Age     *float64 `json:"age_ms"`
}

type poolsDocument struct {
	Pools []poolDocument `json:"pools"`
}

func documentPool(p *rtdv1.Pool) poolDocument {
	d := poolDocument{
		Key: p.GetKey(), Name: p.GetName(), Target: p.GetTarget(), Preset: p.GetPreset(),
		Size: p.GetSize(), MaxSize: p.GetMaxSize(), MaxConnections: p.GetMaxConnections(), MaxDialing: p.GetMaxDialing(),
		Paused: p.GetPaused(), Idle: p.GetIdle(), Dialing: p.GetDialing(), Active: p.GetActive(), Closing: p.GetClosing(),
		Recycling: p.GetRecycling(), Waiting: p.GetWaiting(),
		Takes: p.GetTakes(), Hits: p.GetHits(), Misses: p.GetMisses(), Dials: p.GetDials(),
		DialsFailed: counts(p.GetDialsFailed()), Evicted: counts(p.GetEvicted()), Skipped: counts(p.GetSkipped()),
		Blocked: p.GetBlocked(), FailuresInRow: p.GetFailuresInRow(), DialLimit: p.GetDialLimit(),
		OldestAge: ms(p.GetOldestAge()), YoungestAge: ms(p.GetYoungestAge()), NextRetirement: ms(p.GetNextRetirementIn()),
	}
	if b := p.GetBackoff(); b != nil {
		d.Backoff = &backoffDocument{b.GetClass(), ms(b.GetNextAttemptIn())}
	}
	if f := p.GetLastFailure(); f != nil {
		d.LastFailure = &failureDocument{f.GetClass(), f.GetMessage(), ms(f.GetAge())}
	}
	return d
}

func documentPools(pools []*rtdv1.Pool) []poolDocument {
	list := make([]poolDocument, 0, len(pools))
	for _, p := range pools {
		list = append(list, documentPool(p))
	}
	return list
}

type statsDocument struct {
	Time     *time.Time                            `json:"time"`
	Uptime   *float64                              `json:"uptime_ms"`
	Pools    []poolDocument                        `json:"pools"`
	Phases   map[string]map[string]summaryDocument `json:"phases"` // phase, result
	Sessions sessionTotalsDocument                 `json:"sessions"`
	Memory   memoryDocument                        `json:"memory"`
	Relay    relayDocument                         `json:"relay"`
	Minute   *windowDocument                       `json:"last_minute"`
	Interval *windowDocument                       `json:"last_interval"` // only in a watch, from the second look on
	Targets  []targetDocument                      `json:"targets"`
	Traces   tracesDocument                        `json:"traces"`
}

type tracesDocument struct {
	On      bool              `json:"on"`
	Failing bool              `json:"failing"`
	Waiting uint64            `json:"waiting"`
	Sent    uint64            `json:"sent"`
	Dropped map[string]uint64 `json:"dropped"`
}

type summaryDocument struct {
	Count uint64   `json:"count"`
	Min   *float64 `json:"min_ms"`
	P50   *float64 `json:"p50_ms"`
	P90   *float64 `json:"p90_ms"`
	P99   *float64 `json:"p99_ms"`
	P999  *float64 `json:"p999_ms"`
	Max   *float64 `json:"max_ms"`
	Mean  *float64 `json:"mean_ms"`
}

type sessionTotalsDocument struct {
	Open      uint32            `json:"open"`
	Accepted  uint64            `json:"accepted"`
	Ended     uint64            `json:"ended"`
	Refused   map[string]uint64 `json:"refused"`
	Responses uint64            `json:"responses"`
	Totals    totalsDocument    `json:"response_totals"`
	Usage     usageDocument     `json:"usage"`
}

type memoryDocument struct {
	RSS           uint64   `json:"rss_bytes"`
	PSS           *uint64  `json:"pss_bytes"`
	Heap          uint64   `json:"heap_bytes"`
	Stacks        uint64   `json:"stacks_bytes"`
	Runtime       uint64   `json:"runtime_bytes"`
	KernelSockets *uint64  `json:"kernel_sockets_bytes"`
	Cgroup        *uint64  `json:"cgroup_bytes"`
	Baseline      uint64   `json:"baseline_bytes"`
	Sessions      uint32   `json:"sessions"`
	PerSession    *float64 `json:"per_session_bytes"`
	Goroutines    uint32   `json:"goroutines"`
	OpenFiles     *uint32  `json:"open_files"`

	HeapIdle     uint64            `json:"heap_idle_bytes"`
	HostTCP      *uint64           `json:"host_tcp_bytes"`
	CgroupLimit  *uint64           `json:"cgroup_limit_bytes"`
	Marginal     *marginalDocument `json:"marginal"`
	Peaks        peaksDocument     `json:"peaks"`
	SessionState uint64            `json:"session_state_bytes"`
}

type flowDocument struct {
	Frames        uint64   `json:"frames"`
	Messages      uint64   `json:"messages"`
	Bytes         uint64   `json:"bytes"`
	PingsAnswered uint64   `json:"pings_answered"`
	AddedTotal    *float64 `json:"added_total_ms"`
	AddedMax      *float64 `json:"added_max_ms"`
	Chunks        uint64   `json:"chunks"`
}

type relayDocument struct {
	Parked      uint32       `json:"parked"`
	Live        uint32       `json:"live"`
	Lingering   uint32       `json:"lingering"`
	Up          flowDocument `json:"up"`
	Down        flowDocument `json:"down"`
	Held        uint64       `json:"held_bytes"`
	Descriptors uint32       `json:"descriptors"`
}

func documentStats(s *rtdv1.Stats) statsDocument {
	d := statsDocument{
		Time: instant(s.GetTime()), Uptime: ms(s.GetUptime()),
		Pools:  documentPools(s.GetPools()),
		Phases: documentPhases(s.GetPhases()),
		Sessions: sessionTotalsDocument{
			Open: s.GetSessions().GetOpen(), Accepted: s.GetSessions().GetAccepted(), Ended: s.GetSessions().GetEnded(),
			Refused: counts(s.GetSessions().GetRefused()), Responses: s.GetSessions().GetResponses(),
			Totals: documentTotals(s.GetSessions().GetResponseTotals()), Usage: documentUsage(s.GetSessions().GetUsage()),
		},
		Memory: documentMemory(s.GetMemory()),
		Relay: relayDocument{
			Parked: s.GetRelay().GetParked(), Live: s.GetRelay().GetLive(), Lingering: s.GetRelay().GetLingering(),
			Up: documentFlow(s.GetRelay().GetUp()), Down: documentFlow(s.GetRelay().GetDown()),
			Held: s.GetRelay().GetHeldBytes(), Descriptors: s.GetRelay().GetDescriptors(),
		},
		Minute: documentWindow(s.GetLastMinute()), Interval: documentWindow(s.GetLastInterval()),
		Targets: make([]targetDocument, 0, len(s.GetTargets())),
		Traces: tracesDocument{
			On: s.GetTraces().GetOn(), Failing: s.GetTraces().GetFailing(), Waiting: s.GetTraces().GetWaiting(),
			Sent: s.GetTraces().GetSent(), Dropped: counts(s.GetTraces().GetDropped()),
		},
	}
	for _, target := range s.GetTargets() {
		d.Targets = append(d.Targets, documentTarget(target))
	}
	return d
}

// documentPhases orders them by phase, then result.
func documentPhases(phases []*rtdv1.PhaseSummary) map[string]map[string]summaryDocument {
	d := map[string]map[string]summaryDocument{}
	for _, p := range phases {
		phase, result := word(p.GetPhase().String(), "PHASE_"), word(p.GetResult().String(), "POOL_RESULT_")
		if d[phase] == nil {
			d[phase] = map[string]summaryDocument{}
		}
		m := p.GetSummary()
		d[phase][result] = summaryDocument{
			Count: m.GetCount(), Min: ms(m.GetMin()), P50: ms(m.GetP50()), P90: ms(m.GetP90()), P99: ms(m.GetP99()),
			P999: ms(m.GetP999()), Max: ms(m.GetMax()), Mean: ms(m.GetMean()),
		}
	}
	return d
}

func documentMemory(m *rtdv1.Memory) memoryDocument {
	if m == nil {
		return memoryDocument{}
	}
	return memoryDocument{
		RSS: m.RssBytes, PSS: m.PssBytes, Heap: m.HeapBytes, Stacks: m.StacksBytes, Runtime: m.RuntimeBytes,
		KernelSockets: m.KernelSocketsBytes, Cgroup: m.CgroupBytes, Baseline: m.BaselineBytes,
		Sessions: m.Sessions, PerSession: m.PerSessionBytes, Goroutines: m.Goroutines, OpenFiles: m.OpenFiles,
		HeapIdle: m.HeapIdleBytes, HostTCP: m.HostTcpBytes, CgroupLimit: m.CgroupLimitBytes,
		Marginal: documentMarginal(m.Marginal), Peaks: documentPeaks(m.Peaks), SessionState: m.SessionStateBytes,
	}
}

func documentFlow(f *rtdv1.Flow) flowDocument {
	return flowDocument{
		Frames: f.GetFrames(), Messages: f.GetMessages(), Bytes: f.GetBytes(), PingsAnswered: f.GetPingsAnswered(),
		AddedTotal: ms(f.GetAddedTotal()), AddedMax: ms(f.GetAddedMax()), Chunks: f.GetChunks(),
	}
}

// ms is a duration in milliseconds, nil for one that is not set.
func ms(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	v := float64(d.AsDuration()) / float64(time.Millisecond)
	return &v
}

func instant(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	v := t.AsTime()
	return &v
}

// counts keeps an empty map from becoming null.
func counts(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return m
}

// word is the name of an enum value as documents and screens spell it: PHASE_FIRST_TEXT
// becomes first_text.
func word(value, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value, prefix))
}
