package daemon

import (
	"context"
	"runtime"
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
	return &rtdv1.GetStatsResponse{Stats: s.d.statsMessage()}, nil
}

func (s *statsService) WatchStats(req *rtdv1.WatchStatsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchStatsResponse]) error {
	interval := defaultInterval
	if req.GetInterval() != nil {
		interval = req.GetInterval().AsDuration()
	}
	if interval < minInterval || interval > maxInterval {
		return status.Errorf(codes.InvalidArgument, "interval %v is not between %v and %v", interval, minInterval, maxInterval)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := stream.Send(&rtdv1.WatchStatsResponse{Stats: s.d.statsMessage()}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return streamEnd(stream.Context())
		}
	}
}

func (d *Daemon) statsMessage() *rtdv1.Stats {
	engine := d.engine.Stats()
	now := time.Now()
	m := &rtdv1.Stats{
		Time:   timestamppb.New(now),
		Uptime: durationpb.New(now.Sub(d.started)),
		Pools:  d.poolMessages(),
		Memory: memoryMessage(d.memory.read(engine.Parked + engine.Live)),
		Relay:  relayMessage(engine),
		Sessions: &rtdv1.SessionTotals{
			Open:     uint32(d.sessions.len()),
			Accepted: d.accepted.Load(), Ended: d.finished.Load(), Responses: d.responses.Load(),
			Refused: d.refusals.snapshot(),
		},
	}
	for _, row := range d.stats.Snapshot() {
		m.Phases = append(m.Phases, &rtdv1.PhaseSummary{
			Phase: phases[row.Phase], Result: poolResults[row.Result], Summary: summaryMessage(row.Summary),
		})
	}
	return m
}

var poolResults = map[stats.Result]rtdv1.PoolResult{
	stats.Hit:    rtdv1.PoolResult_POOL_RESULT_HIT,
	stats.Miss:   rtdv1.PoolResult_POOL_RESULT_MISS,
	stats.Bypass: rtdv1.PoolResult_POOL_RESULT_BYPASS,
}

var phases = map[stats.Phase]rtdv1.Phase{
	stats.PhasePoolWait:   rtdv1.Phase_PHASE_POOL_WAIT,
	stats.PhaseDNS:        rtdv1.Phase_PHASE_DNS,
	stats.PhaseTCP:        rtdv1.Phase_PHASE_TCP,
	stats.PhaseTLS:        rtdv1.Phase_PHASE_TLS,
	stats.PhaseUpgrade:    rtdv1.Phase_PHASE_UPGRADE,
	stats.PhaseDial:       rtdv1.Phase_PHASE_DIAL,
	stats.PhaseReady:      rtdv1.Phase_PHASE_READY,
	stats.PhaseFirstText:  rtdv1.Phase_PHASE_FIRST_TEXT,
	stats.PhaseFirstAudio: rtdv1.Phase_PHASE_FIRST_AUDIO,
	stats.PhaseTurn:       rtdv1.Phase_PHASE_TURN,
}

func summaryMessage(s stats.Summary) *rtdv1.Summary {
	return &rtdv1.Summary{
		Count: s.Count,
		Min:   durationpb.New(s.Min), P50: durationpb.New(s.P50), P90: durationpb.New(s.P90), P99: durationpb.New(s.P99),
		P999: durationpb.New(s.P999), Max: durationpb.New(s.Max), Mean: durationpb.New(s.Mean),
	}
}

func memoryMessage(s stats.Memory) *rtdv1.Memory {
	m := &rtdv1.Memory{
		RssBytes: s.RSS, HeapBytes: s.Heap, StacksBytes: s.Stacks,
		BaselineBytes: s.Baseline, Sessions: uint32(s.Sessions), Goroutines: uint32(runtime.NumGoroutine()),
	}
	if s.Sessions > 0 {
		m.PerSessionBytes = new(s.PerSession)
	}
	return m
}

func relayMessage(t relay.Totals) *rtdv1.Relay {
	return &rtdv1.Relay{
		Parked: uint32(t.Parked), Live: uint32(t.Live), Lingering: uint32(t.Lingering),
		Up: flowMessage(t, relay.Up), Down: flowMessage(t, relay.Down),
		HeldBytes: uint64(t.Held), Descriptors: uint32(t.Descriptors),
	}
}

func flowMessage(t relay.Totals, dir relay.Dir) *rtdv1.Flow {
	return &rtdv1.Flow{Frames: t.Frames[dir], Bytes: t.Bytes[dir]}
}
