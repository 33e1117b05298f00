package daemon

import (
	"context"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// daemonService adapts the daemon as a whole to gRPC.
type daemonService struct {
	rtdv1.UnimplementedDaemonServiceServer
	d      *Daemon
	levels sync.Mutex // makes the level in an answer the one that call replaced
}

// drainInterval is how often a drain tells how far it has come.
const drainInterval = time.Second

func (s *daemonService) GetInfo(context.Context, *rtdv1.GetInfoRequest) (*rtdv1.GetInfoResponse, error) {
	return &rtdv1.GetInfoResponse{Info: s.d.info()}, nil
}

func (d *Daemon) info() *rtdv1.DaemonInfo {
	build, now := ReadBuild(), time.Now()
	m := &rtdv1.DaemonInfo{
		Version: build.Version, Commit: build.Commit, GoVersion: build.Go,
		Pid: count(os.Getpid()), StartedAt: timestamppb.New(d.started), Uptime: durationpb.New(now.Sub(d.started)),
		NotReadyReason: d.notReady(),
		Listeners:      d.listeners.messages(),
		Sessions:       count(d.sessions.len()),
		LogLevel:       d.logLevel(),
		ConfigPath:     d.current().cfg.Path,
	}
	m.Ready = m.NotReadyReason == ""
	m.State, m.Drain = d.drainState()
	routes := d.current().routes
	for _, model := range routes.models() {
		target, _ := routes.byModel[model].target(model) // it was rendered before, see check
		m.Routes = append(m.Routes, &rtdv1.Route{Model: model, Target: target.Name})
	}
	for _, p := range d.pools.List() {
		s := p.Stats()
		m.Pools++
		m.Warm += count(s.Idle)
		m.WarmTarget += count(s.Size)
	}
	return m
}

func (s *daemonService) DrainDaemon(req *rtdv1.DrainDaemonRequest, stream grpc.ServerStreamingServer[rtdv1.DrainDaemonResponse]) error {
	timeout := s.d.current().cfg.Grace
	if req.GetTimeout() != nil {
		timeout = req.GetTimeout().AsDuration()
	}
	if timeout < 0 {
		return status.Errorf(codes.InvalidArgument, "timeout %v is negative", timeout)
	}
	dr := s.d.beginDrain()
	s.d.background.Go(func() { s.d.forceAt(dr, time.Now().Add(timeout)) })
	tick := time.NewTicker(drainInterval)
	defer tick.Stop()
	for {
		state, progress := s.d.stateOf(dr)
		if err := stream.Send(&rtdv1.DrainDaemonResponse{State: state, Drain: progress}); err != nil {
			return err
		}
		switch state {
		case rtdv1.DaemonState_DAEMON_STATE_DRAINED:
			return nil
		case rtdv1.DaemonState_DAEMON_STATE_STOPPING:
			return status.Error(codes.Unavailable, errStopping.Error())
		}
		select {
		case <-s.d.sessions.empty():
		case <-dr.over:
		case <-tick.C:
		case <-dr.resumed:
			return status.Error(codes.Aborted, "the drain was ended by a resume")
		case <-stream.Context().Done():
			return streamEnd(stream.Context())
		}
	}
}

func (s *daemonService) ResumeDaemon(context.Context, *rtdv1.ResumeDaemonRequest) (*rtdv1.ResumeDaemonResponse, error) {
	if err := s.d.resume(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &rtdv1.ResumeDaemonResponse{Info: s.d.info()}, nil
}

// drainState says where the daemon stands; the message is nil while it serves.
func (d *Daemon) drainState() (rtdv1.DaemonState, *rtdv1.Drain) {
	d.drains.mu.Lock()
	dr := d.drains.current
	d.drains.mu.Unlock()
	if dr == nil {
		return rtdv1.DaemonState_DAEMON_STATE_SERVING, nil
	}
	return d.stateOf(dr)
}

// stateOf says how far a drain has come.
func (d *Daemon) stateOf(dr *drain) (rtdv1.DaemonState, *rtdv1.Drain) {
	d.drains.mu.Lock()
	stopping := d.drains.stopping
	d.drains.mu.Unlock()
	remaining := d.sessions.len()
	if dr.isOver() {
		remaining = 0
	}
	dr.mu.Lock()
	defer dr.mu.Unlock()
	m := &rtdv1.Drain{
		Remaining: count(remaining),
		Ended:     uint32(d.endedAlone.Load() - dr.ended),
		Forced:    count(dr.forced),
		Elapsed:   durationpb.New(time.Since(dr.begun)),
	}
	if !dr.next.IsZero() {
		m.Left = untilThen(dr.next, time.Now())
	}
	switch {
	case stopping:
		return rtdv1.DaemonState_DAEMON_STATE_STOPPING, m
	case remaining == 0:
		return rtdv1.DaemonState_DAEMON_STATE_DRAINED, m
	}
	return rtdv1.DaemonState_DAEMON_STATE_DRAINING, m
}
