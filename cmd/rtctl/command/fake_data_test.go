package command

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func warmPool() *rtdv1.Pool {
	return &rtdv1.Pool{
		Key: strings.Repeat("a1", 32), Name: "openai/gpt-realtime", Target: "wss://api.openai.com/v1/realtime?model=gpt-realtime",
		Size: 64, MaxSize: 4096, MaxDialing: 16, Idle: 64, Active: 3,
		Takes: 1216, Hits: 1204, Misses: 12, Dials: 1280, DialLimit: 16,
		Evicted:   map[string]uint64{"idle": 9},
		OldestAge: durationpb.New(28 * time.Second), YoungestAge: durationpb.New(1500 * time.Millisecond), NextRetirementIn: durationpb.New(2 * time.Second),
	}
}

func failingPool() *rtdv1.Pool {
	return &rtdv1.Pool{
		Key: strings.Repeat("b2", 32), Name: "compatible/local", Target: "ws://127.0.0.1:9000/v1/realtime?model=local", Preset: "support",
		Size: 4, MaxSize: 4096, MaxConnections: 10, MaxDialing: 16, Idle: 1, Waiting: 2, DialLimit: 1, FailuresInRow: 3,
		Takes: 5, Hits: 0, Misses: 5, Dials: 10,
		DialsFailed: map[string]uint64{"refused": 8, "timeout": 1},
		Skipped:     map[string]uint64{"backoff": 40}, Blocked: "backoff",
		Backoff: &rtdv1.Backoff{Class: "refused", NextAttemptIn: durationpb.New(4200 * time.Millisecond)},
		// An upstream words its own refusals: this one tries to steer the terminal.
		LastFailure: &rtdv1.DialFailure{Class: "refused", Message: "tcp: connection refused \x1b[2J", Age: durationpb.New(800 * time.Millisecond)},
		OldestAge:   durationpb.New(61 * time.Second), YoungestAge: durationpb.New(61 * time.Second),
	}
}

func summary(count uint64, p50 time.Duration) *rtdv1.Summary {
	d := func(percent time.Duration) *durationpb.Duration { return durationpb.New(p50 * percent / 100) }
	return &rtdv1.Summary{Count: count, Min: d(50), P50: d(100), P90: d(130), P99: d(170), P999: d(200), Max: d(210), Mean: d(104)}
}

func newFake(pools ...*rtdv1.Pool) *fake {
	return &fake{
		pools:    slices.Clone(pools),
		sessions: []*rtdv1.Session{newSessionMessage("s-1", "openai/gpt-realtime"), newSessionMessage("s-2", "openai/gpt-realtime"), bypassSession()},
		drain: []*rtdv1.DrainDaemonResponse{
			{State: rtdv1.DaemonState_DAEMON_STATE_DRAINING, Drain: &rtdv1.Drain{Remaining: 3, Elapsed: durationpb.New(0), Left: durationpb.New(3 * time.Second)}},
			{State: rtdv1.DaemonState_DAEMON_STATE_DRAINING, Drain: &rtdv1.Drain{Remaining: 2, Ended: 1, Elapsed: durationpb.New(time.Second), Left: durationpb.New(2 * time.Second)}},
			{State: rtdv1.DaemonState_DAEMON_STATE_DRAINED, Drain: &rtdv1.Drain{Ended: 3, Elapsed: durationpb.New(2500 * time.Millisecond)}},
		},
		stats: &rtdv1.Stats{
			Time: timestamppb.New(noon), Uptime: durationpb.New(3*time.Hour + 12*time.Minute),
			Phases: []*rtdv1.PhaseSummary{
				{Phase: rtdv1.Phase_PHASE_DNS, Result: rtdv1.PoolResult_POOL_RESULT_MISS, Summary: summary(12, 2*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_DIAL, Result: rtdv1.PoolResult_POOL_RESULT_MISS, Summary: summary(12, 118*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_READY, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(1204, 85300*time.Nanosecond)},
				{Phase: rtdv1.Phase_PHASE_READY, Result: rtdv1.PoolResult_POOL_RESULT_MISS, Summary: summary(12, 126*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_FIRST_TEXT, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(4380, 301*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_FIRST_AUDIO, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(4380, 340*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_TURN, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(4380, 2610*time.Millisecond)},
				{Phase: rtdv1.Phase_PHASE_ADDED_UP, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(120400, 24*time.Microsecond)},
				{Phase: rtdv1.Phase_PHASE_JITTER_IN_UP, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(120000, 300*time.Microsecond)},
				{Phase: rtdv1.Phase_PHASE_JITTER_OUT_UP, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(120000, 310*time.Microsecond)},
			},
			Memory: &rtdv1.Memory{
				RssBytes: 41 << 20, HeapBytes: 9 << 20, StacksBytes: 700 << 10, RuntimeBytes: 6 << 20, BaselineBytes: 24 << 20,
				Sessions: 67, PerSessionBytes: proto.Float64(1900), Goroutines: 14, OpenFiles: proto.Uint32(88),
				PssBytes: proto.Uint64(38 << 20), HeapIdleBytes: 3 << 20, KernelSocketsBytes: proto.Uint64(640 << 10), HostTcpBytes: proto.Uint64(2 << 20),
				CgroupBytes: proto.Uint64(52 << 20), CgroupLimitBytes: proto.Uint64(512 << 20), SessionStateBytes: 3 * 600,
				Marginal: &rtdv1.MarginalMemory{PerSessionBytes: 2100, LowBytes: 1800, HighBytes: 2400, Points: 12, ToSessions: 67},
				Peaks:    &rtdv1.MemoryPeaks{RssBytes: 44 << 20, HeapBytes: 15 << 20, StacksBytes: 900 << 10, KernelSocketsBytes: proto.Uint64(1 << 20), CgroupBytes: proto.Uint64(60 << 20), Sessions: 70},
			},
			Relay: &rtdv1.Relay{
				Parked: 64, Live: 3, Descriptors: 70,
				Up:   &rtdv1.Flow{Frames: 120400, Messages: 120400, Bytes: 158 << 20, PingsAnswered: 4, AddedTotal: durationpb.New(3 * time.Second), AddedMax: durationpb.New(1300 * time.Microsecond)},
				Down: &rtdv1.Flow{Frames: 98000, Messages: 97990, Bytes: 640 << 20, PingsAnswered: 200, AddedTotal: durationpb.New(4 * time.Second), AddedMax: durationpb.New(2 * time.Millisecond)},
			},
			Sessions: &rtdv1.SessionTotals{Open: 3, Accepted: 1216, Ended: 1213, Refused: map[string]uint64{"model_not_found": 2}, Responses: 4380, ResponseTotals: responseTotals(), Usage: usage(1)},
			Traces:   &rtdv1.Traces{On: true, Waiting: 12, Sent: 14200, Dropped: map[string]uint64{"queue_full": 0, "not_sent": 0, "session_limit": 31}},
			LastMinute: &rtdv1.Window{
				Length: durationpb.New(time.Minute), Accepted: 31, Ended: 30, Responses: &rtdv1.ResponseTotals{Started: 90, Completed: 88, Interrupted: 2}, Usage: usage(3),
				Phases: []*rtdv1.PhaseSummary{{Phase: rtdv1.Phase_PHASE_READY, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(31, 84*time.Microsecond)}},
				Up:     &rtdv1.Flow{Frames: 9000, Messages: 9000, Bytes: 12 << 20}, Down: &rtdv1.Flow{Frames: 7000, Messages: 7000, Bytes: 46 << 20},
			},
			Targets: []*rtdv1.TargetStats{{
				Target: "openai/gpt-realtime", Accepted: 1216, Ended: 1213, Hits: 1204, Misses: 12, Responses: responseTotals(), Usage: usage(1),
				Phases: []*rtdv1.PhaseSummary{{Phase: rtdv1.Phase_PHASE_READY, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(1204, 85300*time.Nanosecond)}},
			}},
		},
		info: &rtdv1.DaemonInfo{
			Version: "v0.1.0", Commit: "0123456789abcdef0123", GoVersion: "go1.26.0", Pid: 4242,
			StartedAt: timestamppb.New(noon.Add(-3 * time.Hour)), Uptime: durationpb.New(3 * time.Hour),
			State: rtdv1.DaemonState_DAEMON_STATE_SERVING, Ready: true,
			Listeners: []*rtdv1.Listener{
				{Name: "data", Network: "tcp", Address: "127.0.0.1:4001"},
				{Name: "admin", Network: "tcp", Address: "127.0.0.1:4002"},
				{Name: "control", Network: "unix", Address: "/run/rtd/rtd.sock"},
			},
			Routes:   []*rtdv1.Route{{Model: "gpt-realtime", Target: "openai/gpt-realtime"}},
			Sessions: 3, Pools: 1, Warm: 64, WarmTarget: 64, LogLevel: rtdv1.LogLevel_LOG_LEVEL_INFO,
		},
	}
}

func responseTotals() *rtdv1.ResponseTotals {
	return &rtdv1.ResponseTotals{Started: 4382, Completed: 4300, Cancelled: 78, Failed: 1, Incomplete: 1, Interrupted: 80, Lost: 2, Errors: 3}
}

func usage(share uint64) *rtdv1.Usage {
	return &rtdv1.Usage{Input: 900 / share, Output: 600 / share, Total: 1500 / share, InputText: 100, InputAudio: 800 / share, OutputText: 150 / share, OutputAudio: 450 / share}
}

// emptyFake has just started and answers with as little as a daemon may.
func emptyFake() *fake {
	f := newFake()
	f.stats, f.info = &rtdv1.Stats{}, &rtdv1.DaemonInfo{Version: "devel", State: rtdv1.DaemonState_DAEMON_STATE_STARTING, NotReadyReason: "starting"}
	return f
}

func newSessionMessage(id, target string) *rtdv1.Session {
	return &rtdv1.Session{
		Id: id, State: rtdv1.SessionState_SESSION_STATE_OPEN, Target: target, PoolKey: strings.Repeat("a1", 32),
		Result: rtdv1.PoolResult_POOL_RESULT_HIT, ClientAddress: "127.0.0.1:50123", UpstreamSessionId: "sess_test",
		Model: "gpt-realtime", KeyName: "web",
		AcceptedAt: timestamppb.New(noon.Add(-95 * time.Second)), Age: durationpb.New(95 * time.Second), Quiet: durationpb.New(20 * time.Millisecond),
		AgeAtTake: durationpb.New(12300 * time.Millisecond), ExpiresAt: timestamppb.New(noon.Add(time.Hour)),
		Setup: []*rtdv1.PhaseTime{
			{Phase: rtdv1.Phase_PHASE_POOL_WAIT, Duration: durationpb.New(900 * time.Nanosecond)},
			{Phase: rtdv1.Phase_PHASE_READY, Duration: durationpb.New(91 * time.Microsecond)},
		},
		Responses: &rtdv1.Responses{
			Started: 4, Completed: 3, Cancelled: 1, Interrupted: 1,
			FirstText:  &rtdv1.Measure{Count: 4, Last: durationpb.New(301 * time.Millisecond), Max: durationpb.New(410 * time.Millisecond), Total: durationpb.New(1300 * time.Millisecond)},
			FirstAudio: &rtdv1.Measure{Count: 4, Last: durationpb.New(340 * time.Millisecond), Max: durationpb.New(450 * time.Millisecond), Total: durationpb.New(1440 * time.Millisecond)},
			Created:    &rtdv1.Measure{Count: 4, Last: durationpb.New(40 * time.Millisecond), Max: durationpb.New(50 * time.Millisecond), Total: durationpb.New(160 * time.Millisecond)},
			Turn:       &rtdv1.Measure{Count: 3, Last: durationpb.New(2 * time.Second), Max: durationpb.New(3 * time.Second), Total: durationpb.New(7 * time.Second)},
		},
		Up:         &rtdv1.Flow{Frames: 4700, Messages: 4700, Bytes: 6_900_000, AddedMax: durationpb.New(800 * time.Microsecond)},
		Down:       &rtdv1.Flow{Frames: 900, Messages: 900, Bytes: 5_100_000, PingsAnswered: 6, AddedMax: durationpb.New(1100 * time.Microsecond)},
		Usage:      usage(1),
		FirstFrame: durationpb.New(2 * time.Millisecond), StateBytes: 1400,
		LastTurn: &rtdv1.TurnMarks{
			Start: durationpb.New(90 * time.Second), Created: durationpb.New(90040 * time.Millisecond), FirstText: durationpb.New(90301 * time.Millisecond),
			FirstAudio: durationpb.New(90340 * time.Millisecond), Done: durationpb.New(92 * time.Second), Interrupted: true,
		},
		JitterUp: &rtdv1.Jitter{
			In:  &rtdv1.Measure{Count: 4600, Last: durationpb.New(time.Millisecond), Max: durationpb.New(9 * time.Millisecond), Total: durationpb.New(1400 * time.Millisecond)},
			Out: &rtdv1.Measure{Count: 4600, Last: durationpb.New(time.Millisecond), Max: durationpb.New(9 * time.Millisecond), Total: durationpb.New(1420 * time.Millisecond)},
			Gap: durationpb.New(20 * time.Millisecond),
		},
	}
}

func bypassSession() *rtdv1.Session {
	return &rtdv1.Session{
		Id: "s-3", State: rtdv1.SessionState_SESSION_STATE_CLOSING, Target: "compatible/local", Preset: "support",
		Result: rtdv1.PoolResult_POOL_RESULT_BYPASS, BypassReason: `query parameter "call_id"`, ClientAddress: "127.0.0.1:50124",
		AcceptedAt: timestamppb.New(noon.Add(-time.Second)), Age: durationpb.New(time.Second), HeldBytes: 4096,
		End: &rtdv1.SessionEnd{By: rtdv1.Party_PARTY_UPSTREAM, Code: 1006, Error: "connection reset by peer"},
	}
}
