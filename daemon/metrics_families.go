package daemon

import (
	"maps"
	"slices"

	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// metricFamilies are those of /metrics, in the order of the documentation. The values of a label are bounded: by the
// configuration (target, pool), or by what is listed beside it.
var metricFamilies = []metric{
	{name: "rtd_build_info", kind: gauge, help: "What is running; always 1.", labels: []string{"version", "commit", "go_version"},
		collect: func(s *scrape, emit emit) { emit(1, s.build.Version, s.build.Commit, s.build.Go) }},
	{name: "rtd_ready", kind: gauge, help: "1 while clients are taken, as /readyz says.",
		collect: func(s *scrape, emit emit) { emit(oneIf(s.ready)) }},

	{name: "rtd_sessions_open", kind: gauge, help: "Sessions of clients now.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Sessions.Open)) }},
	{name: "rtd_sessions_accepted_total", kind: counter, help: "Sessions answered with a 101, by how they got their upstream: hit, miss or bypass.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Sessions) }},
	{name: "rtd_sessions_ended_total", kind: counter, help: "Of those, sessions that are over.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Ended) }},
	{name: "rtd_sessions_refused_total", kind: counter, help: "Clients that got no session, by the code they were told.", labels: []string{"code"},
		collect: func(s *scrape, emit emit) { emitAll(emit, s.stats.Sessions.Refused) }},

	{name: "rtd_setup_duration_seconds", kind: histogram, labels: []string{"phase", "target", "result"},
		help: "Time a phase of the set-up took: accept (to authenticated and routed), pool_wait, dns, tcp, tls, upgrade, dial (those four), upstream_ready (upgrade to its last ready frame), ready (accept to the client's 101 with everything in hand), first_frame (101 to the client's first message).",
		phases: []phaseLabels{
			{stats.PhaseAccept, []string{"accept"}}, {stats.PhasePoolWait, []string{"pool_wait"}},
			{stats.PhaseDNS, []string{"dns"}}, {stats.PhaseTCP, []string{"tcp"}}, {stats.PhaseTLS, []string{"tls"}}, {stats.PhaseUpgrade, []string{"upgrade"}},
			{stats.PhaseDial, []string{"dial"}}, {stats.PhaseUpstreamReady, []string{"upstream_ready"}},
			{stats.PhaseReady, []string{"ready"}}, {stats.PhaseFirstFrame, []string{"first_frame"}},
		}},
	{name: "rtd_response_latency_seconds", kind: histogram, labels: []string{"mark", "target", "result"},
		help: "Time from the end of the user's turn, or the request for a response, to its mark: created, first_text, first_audio, done. It is the upstream's; rtd's own share is rtd_relay_added_seconds.",
		phases: []phaseLabels{
			{stats.PhaseCreated, []string{"created"}}, {stats.PhaseFirstText, []string{"first_text"}},
			{stats.PhaseFirstAudio, []string{"first_audio"}}, {stats.PhaseTurn, []string{"done"}},
		}},
	{name: "rtd_relay_added_seconds", kind: histogram, labels: []string{"direction", "target", "result"},
		help: "Time rtd itself adds, from readable to written, for each piece read at once: up is towards the upstream, down towards the client.",
		phases: []phaseLabels{
			{stats.PhaseAddedUp, []string{"up"}}, {stats.PhaseAddedDown, []string{"down"}},
		}},
	{name: "rtd_chunk_jitter_seconds", kind: histogram, labels: []string{"direction", "side", "target", "result"},
		help: "How far the gap between two chunks of audio is from the session's own median gap, as they came (in) and as they were passed on (out). What out has more than in is rtd's share.",
		phases: []phaseLabels{
			{stats.PhaseJitterInUp, []string{"up", "in"}}, {stats.PhaseJitterOutUp, []string{"up", "out"}},
			{stats.PhaseJitterInDown, []string{"down", "in"}}, {stats.PhaseJitterOutDown, []string{"down", "out"}},
		}},

	{name: "rtd_responses_started_total", kind: counter, help: "Responses that began.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Started) }},
	{name: "rtd_responses_ended_total", kind: counter, help: "Responses that ended, by status: completed, cancelled, failed or incomplete.", labels: []string{"status", "target", "result"},
		collect: func(s *scrape, emit emit) {
			s.each(with(emit, "completed"), stats.Completed)
			s.each(with(emit, "cancelled"), stats.Cancelled)
			s.each(with(emit, "failed"), stats.Failed)
			s.each(with(emit, "incomplete"), stats.Incomplete)
		}},
	{name: "rtd_responses_interrupted_total", kind: counter, help: "Responses cut short by the user or the client, while they were made or played.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Interrupted) }},
	{name: "rtd_turns_lost_total", kind: counter, help: "Turns that were due an answer when their session ended.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Lost) }},
	{name: "rtd_error_events_total", kind: counter, help: "Error events that upstreams sent.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.Errors) }},
	{name: "rtd_tokens_total", kind: counter, help: "Tokens that upstreams billed, by direction, input or output, and modality: text, audio or image.", labels: []string{"direction", "modality", "target", "result"},
		collect: func(s *scrape, emit emit) {
			s.each(with(emit, "input", "text"), stats.TokensInputText)
			s.each(with(emit, "input", "audio"), stats.TokensInputAudio)
			s.each(with(emit, "input", "image"), stats.TokensInputImage)
			s.each(with(emit, "output", "text"), stats.TokensOutputText)
			s.each(with(emit, "output", "audio"), stats.TokensOutputAudio)
		}},
	{name: "rtd_tokens_cached_total", kind: counter, help: "Of the input tokens, those that the upstream had cached.", labels: []string{"target", "result"},
		collect: func(s *scrape, emit emit) { s.each(emit, stats.TokensInputCached) }},

	{name: "rtd_relay_sessions", kind: gauge, help: "Sessions of the relay by state: parked (no client yet), live, lingering (closing).", labels: []string{"state"},
		collect: func(s *scrape, emit emit) {
			emit(float64(s.stats.Relay.Parked), "parked")
			emit(float64(s.stats.Relay.Live), "live")
			emit(float64(s.stats.Relay.Lingering), "lingering")
		}},
	{name: "rtd_relay_frames_total", kind: counter, help: "Data and Close frames passed on.", labels: []string{"direction"},
		collect: func(s *scrape, emit emit) { s.flow(emit, (*rtdv1.Flow).GetFrames) }},
	{name: "rtd_relay_messages_total", kind: counter, help: "Whole data messages passed on.", labels: []string{"direction"},
		collect: func(s *scrape, emit emit) { s.flow(emit, (*rtdv1.Flow).GetMessages) }},
	{name: "rtd_relay_bytes_total", kind: counter, help: "Bytes passed on, frame headers included.", labels: []string{"direction"},
		collect: func(s *scrape, emit emit) { s.flow(emit, (*rtdv1.Flow).GetBytes) }},
	{name: "rtd_relay_held_bytes", kind: gauge, help: "Bytes held because a receiver is slow.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Relay.HeldBytes)) }},
	{name: "rtd_relay_descriptors", kind: gauge, help: "Sockets the relay owns.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Relay.Descriptors)) }},

	{name: "rtd_pool_size", kind: gauge, help: "Sessions that are to be idle.", labels: []string{"pool"},
		collect: func(s *scrape, emit emit) { s.pools(emit, func(p *rtdv1.Pool) float64 { return float64(p.Size) }) }},
	{name: "rtd_pool_sessions", kind: gauge, help: "Sessions of a pool by state: idle, dialing, active, closing.", labels: []string{"state", "pool"},
		collect: func(s *scrape, emit emit) {
			s.pools(with(emit, "idle"), func(p *rtdv1.Pool) float64 { return float64(p.Idle) })
			s.pools(with(emit, "dialing"), func(p *rtdv1.Pool) float64 { return float64(p.Dialing) })
			s.pools(with(emit, "active"), func(p *rtdv1.Pool) float64 { return float64(p.Active) })
			s.pools(with(emit, "closing"), func(p *rtdv1.Pool) float64 { return float64(p.Closing) })
		}},
	{name: "rtd_pool_waiting", kind: gauge, help: "Clients that wait for a dial.", labels: []string{"pool"},
		collect: func(s *scrape, emit emit) { s.pools(emit, func(p *rtdv1.Pool) float64 { return float64(p.Waiting) }) }},
	{name: "rtd_pool_paused", kind: gauge, help: "1 while the pool is paused.", labels: []string{"pool"},
		collect: func(s *scrape, emit emit) { s.pools(emit, func(p *rtdv1.Pool) float64 { return oneIf(p.Paused) }) }},
	{name: "rtd_pool_takes_total", kind: counter, help: "Clients that asked a pool for a session, by result: hit, or miss whatever came of it.", labels: []string{"result", "pool"},
		collect: func(s *scrape, emit emit) {
			s.pools(with(emit, "hit"), func(p *rtdv1.Pool) float64 { return float64(p.Hits) })
			s.pools(with(emit, "miss"), func(p *rtdv1.Pool) float64 { return float64(p.Misses) })
		}},
	{name: "rtd_pool_dials_total", kind: counter, help: "Dials a pool began.", labels: []string{"pool"},
		collect: func(s *scrape, emit emit) { s.pools(emit, func(p *rtdv1.Pool) float64 { return float64(p.Dials) }) }},
	{name: "rtd_pool_dials_failed_total", kind: counter, help: "Dials that failed, by class; sessions that died at once included.", labels: []string{"pool", "class"},
		collect: func(s *scrape, emit emit) { s.poolCounts(emit, (*rtdv1.Pool).GetDialsFailed) }},
	{name: "rtd_pool_evicted_total", kind: counter, help: "Idle sessions given up, by reason.", labels: []string{"pool", "reason"},
		collect: func(s *scrape, emit emit) { s.poolCounts(emit, (*rtdv1.Pool).GetEvicted) }},
	{name: "rtd_pool_dials_skipped_total", kind: counter, help: "Dials that warming wanted and did not begin, by reason.", labels: []string{"pool", "reason"},
		collect: func(s *scrape, emit emit) { s.poolCounts(emit, (*rtdv1.Pool).GetSkipped) }},

	{name: "rtd_trace_spans_sent_total", kind: counter, help: "Spans of traced sessions that the receiver took.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Traces.Sent)) }},
	{name: "rtd_trace_spans_dropped_total", kind: counter, help: "Spans that were not sent, by reason: queue_full (more waited than may), not_sent (refused by the receiver, or left over at a stop), session_limit (a session's responses beyond the 64th).", labels: []string{"reason"},
		collect: func(s *scrape, emit emit) { emitAll(emit, s.stats.Traces.Dropped) }},
	{name: "rtd_trace_spans_waiting", kind: gauge, help: "Spans that wait to be sent, or for the receiver's answer.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Traces.Waiting)) }},

	{name: "rtd_memory_resident_bytes", kind: gauge, help: "Resident set of the process.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Memory.RssBytes)) }},
	{name: "rtd_memory_proportional_bytes", kind: gauge, help: "Proportional set: pages shared with other processes count by their share.",
		collect: func(s *scrape, emit emit) { emitKnown(emit, s.stats.Memory.PssBytes) }},
	{name: "rtd_memory_runtime_bytes", kind: gauge, help: "What the Go runtime has from the system, by part: heap (in use, garbage included), heap_idle, stacks, other.", labels: []string{"part"},
		collect: func(s *scrape, emit emit) {
			m := s.stats.Memory
			emit(float64(m.HeapBytes), "heap")
			emit(float64(m.HeapIdleBytes), "heap_idle")
			emit(float64(m.StacksBytes), "stacks")
			emit(float64(m.RuntimeBytes), "other")
		}},
	{name: "rtd_memory_kernel_sockets_bytes", kind: gauge, help: "Buffers that the kernel holds for the process's sockets. Not part of the resident set; part of what the cgroup is charged.",
		collect: func(s *scrape, emit emit) { emitKnown(emit, s.stats.Memory.KernelSocketsBytes) }},
	{name: "rtd_memory_host_tcp_bytes", kind: gauge, help: "TCP buffers of the whole host.",
		collect: func(s *scrape, emit emit) { emitKnown(emit, s.stats.Memory.HostTcpBytes) }},
	{name: "rtd_memory_cgroup_bytes", kind: gauge, help: "What the process's cgroup is charged, page cache and other processes in it included.",
		collect: func(s *scrape, emit emit) { emitKnown(emit, s.stats.Memory.CgroupBytes) }},
	{name: "rtd_memory_cgroup_limit_bytes", kind: gauge, help: "Tightest limit of that cgroup or one above it; absent without one.",
		collect: func(s *scrape, emit emit) { emitKnown(emit, s.stats.Memory.CgroupLimitBytes) }},
	{name: "rtd_memory_baseline_bytes", kind: gauge, help: "Resident set before the first session.",
		collect: func(s *scrape, emit emit) { emit(float64(s.stats.Memory.BaselineBytes)) }},
	{name: "rtd_memory_session_marginal_bytes", kind: gauge, help: "What one more session costs in resident memory: the estimate of a regression over the load seen so far, and the ends of its 95% interval (low, high). Absent until the load has varied.", labels: []string{"bound"},
		collect: func(s *scrape, emit emit) {
			if m := s.stats.Memory.Marginal; m != nil {
				emit(m.PerSessionBytes, "estimate")
				emit(m.LowBytes, "low")
				emit(m.HighBytes, "high")
			}
		}},
	{name: "rtd_memory_peak_bytes", kind: gauge, help: "Highest since the start, looked at once a second: resident, heap, stacks, kernel_sockets, cgroup.", labels: []string{"part"},
		collect: func(s *scrape, emit emit) {
			p := s.stats.Memory.Peaks
			emit(float64(p.RssBytes), "resident")
			emit(float64(p.HeapBytes), "heap")
			emit(float64(p.StacksBytes), "stacks")
			emitKnown(with(emit, "kernel_sockets"), p.KernelSocketsBytes)
			emitKnown(with(emit, "cgroup"), p.CgroupBytes)
		}},
}

// emit takes one sample.
type emit = func(v float64, labels ...string)

// with is emit with the values of the first labels given.
func with(to emit, first ...string) emit {
	return func(v float64, labels ...string) { to(v, append(slices.Clone(first), labels...)...) }
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func emitKnown(to emit, v *uint64) {
	if v != nil {
		to(float64(*v))
	}
}

func emitAll(to emit, counts map[string]uint64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		to(float64(counts[name]), name)
	}
}

// each emits a counter of every target and result.
func (s *scrape) each(to emit, c stats.Counter) {
	for _, target := range s.snapshot.Targets() {
		part := s.snapshot.Of(target)
		for r := range stats.NumResults {
			to(float64(part.Counts(stats.Result(r))[c]), target, stats.Result(r).String())
		}
	}
}

func (s *scrape) flow(to emit, of func(*rtdv1.Flow) uint64) {
	to(float64(of(s.stats.Relay.Up)), "up")
	to(float64(of(s.stats.Relay.Down)), "down")
}

// pools emits a figure of every pool; pools of one name, which only differ in what their clients sent, are one.
func (s *scrape) pools(to emit, of func(*rtdv1.Pool) float64) {
	sums := map[string]float64{}
	for _, p := range s.stats.Pools {
		sums[p.Name] += of(p)
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		to(sums[name], name)
	}
}

func (s *scrape) poolCounts(to emit, of func(*rtdv1.Pool) map[string]uint64) {
	sums := map[string]map[string]uint64{}
	for _, p := range s.stats.Pools {
		if sums[p.Name] == nil {
			sums[p.Name] = map[string]uint64{}
		}
		for what, n := range of(p) {
			sums[p.Name][what] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		emitAll(with(to, name), sums[name])
	}
}
