package daemon

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Bounds of the interval of WatchStats.
const (
	defaultInterval = time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Hour
)

// statsService adapts the statistics to gRPC.
type statsService struct {
	rtdv1.UnimplementedStatsServiceServer
	d *Daemon
}

func (s *statsService) GetStats(context.Context, *rtdv1.GetStatsRequest) (*rtdv1.GetStatsResponse, error) {
	return &rtdv1.GetStatsResponse{Stats: s.d.moment().message()}, nil
}

func (s *statsService) WatchStats(req *rtdv1.WatchStatsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchStatsResponse]) error {
	interval := defaultInterval
	if req.GetInterval() != nil {
		interval = req.GetInterval().AsDuration()
	}
	if interval < minInterval || interval > maxInterval {
		return status.Errorf(codes.InvalidArgument, "interval %v is not between %v and %v", interval, minInterval, maxInterval)
	}
	tick := time.Now()
	next := time.NewTimer(untilTick(tick, interval))
	defer next.Stop()
	var before *moment
	for {
		now := s.d.history.at(tick, s.d.moment)
		m := now.message()
		if before != nil {
			m = now.messageSince(before)
		}
		if err := stream.Send(&rtdv1.WatchStatsResponse{Stats: m}); err != nil {
			return err
		}
		before = now
		select {
		case <-next.C:
			at := time.Now()
			tick = tickAt(at, interval)
			next.Reset(untilTick(at, interval))
		case <-stream.Context().Done():
			return streamEnd(stream.Context())
		}
	}
}

// statsMessage is for the moment's own use: it has the numbers of a moment, and of the pools and the memory as they are when it
// is made.
func (d *Daemon) statsMessage(now *moment) *rtdv1.Stats {
	total := now.snapshot.Total()
	m := &rtdv1.Stats{
		Time:   timestamppb.New(now.at),
		Uptime: durationpb.New(now.at.Sub(d.started)),
		Pools:  d.poolMessages(),
		Phases: phaseMessages(now.snapshot.Rows(nil)),
		Memory: d.memory.message(now.relay.Parked+now.relay.Live, d.sessions.len()),
		Relay:  relayMessage(now),
		Sessions: &rtdv1.SessionTotals{
			Open:     uint32(d.sessions.len()),
			Accepted: d.accepted.Load(), Ended: d.finished.Load(), Responses: d.responses.Load(),
			Refused:        d.refusals.snapshot(),
			ResponseTotals: responseTotals(total), Usage: usageOf(total),
		},
		LastMinute: windowMessage(d.history.minute(now.at), now),
		Traces:     tracesMessage(d.traces.Stats()),
	}
	for _, target := range now.snapshot.Targets() {
		m.Targets = append(m.Targets, targetMessage(target, now.snapshot.Of(target)))
	}
	return m
}

func targetMessage(name string, part *stats.Snapshot) *rtdv1.TargetStats {
	total := part.Total()
	return &rtdv1.TargetStats{
		Target: name, Accepted: total[stats.Sessions], Ended: total[stats.Ended],
		Hits:   part.Counts(stats.Hit)[stats.Sessions],
		Misses: part.Counts(stats.Miss)[stats.Sessions], Bypasses: part.Counts(stats.Bypass)[stats.Sessions],
		Responses: responseTotals(total), Usage: usageOf(total), Phases: phaseMessages(part.Rows(nil)),
	}
}

// windowMessage is what happened from one moment to another.
func windowMessage(from, to *moment) *rtdv1.Window {
	total := to.snapshot.Total().Sub(from.snapshot.Total())
	flow := func(dir relay.Dir) *rtdv1.Flow {
		return &rtdv1.Flow{
			Frames:   to.relay.Frames[dir] - from.relay.Frames[dir],
			Messages: to.relay.Messages[dir] - from.relay.Messages[dir],
			Bytes:    to.relay.Bytes[dir] - from.relay.Bytes[dir],
		}
	}
	return &rtdv1.Window{
		Length:   durationpb.New(to.at.Sub(from.at)),
		Phases:   phaseMessages(to.snapshot.Rows(from.snapshot)),
		Accepted: total[stats.Sessions], Ended: total[stats.Ended],
		Responses: responseTotals(total), Usage: usageOf(total),
		Up: flow(relay.Up), Down: flow(relay.Down),
	}
}

func responseTotals(c stats.Counts) *rtdv1.ResponseTotals {
	return &rtdv1.ResponseTotals{
		Started: c[stats.Started], Completed: c[stats.Completed], Cancelled: c[stats.Cancelled],
		Failed: c[stats.Failed], Incomplete: c[stats.Incomplete],
		Interrupted: c[stats.Interrupted], Lost: c[stats.Lost], Errors: c[stats.Errors],
	}
}

func usageOf(c stats.Counts) *rtdv1.Usage {
	return &rtdv1.Usage{
		Input: c[stats.TokensInput], Output: c[stats.TokensOutput], Total: c[stats.TokensTotal],
		InputText: c[stats.TokensInputText], InputAudio: c[stats.TokensInputAudio],
		InputImage: c[stats.TokensInputImage], InputCached: c[stats.TokensInputCached],
		OutputText: c[stats.TokensOutputText], OutputAudio: c[stats.TokensOutputAudio],
	}
}

var poolResults = map[stats.Result]rtdv1.PoolResult{
	stats.Hit:    rtdv1.PoolResult_POOL_RESULT_HIT,
	stats.Miss:   rtdv1.PoolResult_POOL_RESULT_MISS,
	stats.Bypass: rtdv1.PoolResult_POOL_RESULT_BYPASS,
}

var phases = map[stats.Phase]rtdv1.Phase{
	stats.PhaseAccept:        rtdv1.Phase_PHASE_ACCEPT,
	stats.PhasePoolWait:      rtdv1.Phase_PHASE_POOL_WAIT,
	stats.PhaseDNS:           rtdv1.Phase_PHASE_DNS,
	stats.PhaseTCP:           rtdv1.Phase_PHASE_TCP,
	stats.PhaseTLS:           rtdv1.Phase_PHASE_TLS,
	stats.PhaseUpgrade:       rtdv1.Phase_PHASE_UPGRADE,
	stats.PhaseDial:          rtdv1.Phase_PHASE_DIAL,
	stats.PhaseUpstreamReady: rtdv1.Phase_PHASE_UPSTREAM_READY,
	stats.PhaseReady:         rtdv1.Phase_PHASE_READY,
	stats.PhaseFirstFrame:    rtdv1.Phase_PHASE_FIRST_FRAME,
	stats.PhaseCreated:       rtdv1.Phase_PHASE_CREATED,
	stats.PhaseFirstText:     rtdv1.Phase_PHASE_FIRST_TEXT,
	stats.PhaseFirstAudio:    rtdv1.Phase_PHASE_FIRST_AUDIO,
	stats.PhaseTurn:          rtdv1.Phase_PHASE_TURN,
	stats.PhaseAddedUp:       rtdv1.Phase_PHASE_ADDED_UP,
	stats.PhaseAddedDown:     rtdv1.Phase_PHASE_ADDED_DOWN,
	stats.PhaseJitterInUp:    rtdv1.Phase_PHASE_JITTER_IN_UP,
	stats.PhaseJitterInDown:  rtdv1.Phase_PHASE_JITTER_IN_DOWN,
	stats.PhaseJitterOutUp:   rtdv1.Phase_PHASE_JITTER_OUT_UP,
	stats.PhaseJitterOutDown: rtdv1.Phase_PHASE_JITTER_OUT_DOWN,
}

func phaseMessages(rows []stats.Row) []*rtdv1.PhaseSummary {
	var list []*rtdv1.PhaseSummary
	for _, row := range rows {
		list = append(list, &rtdv1.PhaseSummary{Phase: phases[row.Phase], Result: poolResults[row.Result], Summary: summaryMessage(row.Summary)})
	}
	return list
}

func summaryMessage(s stats.Summary) *rtdv1.Summary {
	return &rtdv1.Summary{
		Count: s.Count,
		Min:   durationpb.New(s.Min), P50: durationpb.New(s.P50), P90: durationpb.New(s.P90), P99: durationpb.New(s.P99),
		P999: durationpb.New(s.P999), Max: durationpb.New(s.Max), Mean: durationpb.New(s.Mean),
	}
}

func relayMessage(now *moment) *rtdv1.Relay {
	t := now.relay
	return &rtdv1.Relay{
		Parked: uint32(t.Parked), Live: uint32(t.Live), Lingering: uint32(t.Lingering),
		Up: flowMessage(now, relay.Up), Down: flowMessage(now, relay.Down),
		HeldBytes: uint64(t.Held), Descriptors: uint32(t.Descriptors),
	}
}

func flowMessage(now *moment, dir relay.Dir) *rtdv1.Flow {
	var spent stats.Histogram
	for r := range stats.NumResults {
		spent.Merge(now.snapshot.Merged(nil, stats.Result(r), added[dir]))
	}
	return &rtdv1.Flow{
		Frames: now.relay.Frames[dir], Messages: now.relay.Messages[dir], Bytes: now.relay.Bytes[dir],
		AddedTotal: durationpb.New(spent.Sum()), AddedMax: durationpb.New(spent.Quantile(1)), Chunks: spent.Count(),
	}
}
