package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/pool"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// newControlServer serves the control socket.
func (d *Daemon) newControlServer() *grpc.Server {
	a := newAdmins(d.current().cfg)
	s := grpc.NewServer(grpc.Creds(unixsock.Credentials()), grpc.UnaryInterceptor(a.unary), grpc.StreamInterceptor(a.stream))
	rtdv1.RegisterPoolServiceServer(s, &poolService{d: d})
	rtdv1.RegisterSessionServiceServer(s, &sessionService{d: d})
	rtdv1.RegisterStatsServiceServer(s, &statsService{d: d})
	rtdv1.RegisterDaemonServiceServer(s, &daemonService{d: d})
	healthpb.RegisterHealthServer(s, d.health)
	reflection.Register(s)
	return s
}

// poolService adapts the pools to gRPC.
type poolService struct {
	rtdv1.UnimplementedPoolServiceServer
	d *Daemon
}

func (s *poolService) ListPools(context.Context, *rtdv1.ListPoolsRequest) (*rtdv1.ListPoolsResponse, error) {
	return &rtdv1.ListPoolsResponse{Pools: s.d.poolMessages()}, nil
}

func (s *poolService) GetPool(_ context.Context, req *rtdv1.GetPoolRequest) (*rtdv1.GetPoolResponse, error) {
	p, err := s.d.findPool(req.GetPool())
	if err != nil {
		return nil, err
	}
	return &rtdv1.GetPoolResponse{Pool: s.d.poolMessage(p)}, nil
}

func (s *poolService) ResizePool(_ context.Context, req *rtdv1.ResizePoolRequest) (*rtdv1.ResizePoolResponse, error) {
	p, err := s.d.findPool(req.GetPool())
	if err != nil {
		return nil, err
	}
	before := p.Stats().Size
	if err := p.Resize(int(req.GetSize())); err != nil {
		return nil, poolStatus(err)
	}
	s.d.log.Info("pool resized", "pool", p.Name(), "from", before, "to", req.GetSize())
	return &rtdv1.ResizePoolResponse{Pool: s.d.poolMessage(p), PreviousSize: uint32(before)}, nil
}

func (s *poolService) PausePool(_ context.Context, req *rtdv1.PausePoolRequest) (*rtdv1.PausePoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "paused", (*pool.Pool).Pause)
	return &rtdv1.PausePoolResponse{Pool: m}, err
}

func (s *poolService) ResumePool(_ context.Context, req *rtdv1.ResumePoolRequest) (*rtdv1.ResumePoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "resumed", (*pool.Pool).Resume)
	return &rtdv1.ResumePoolResponse{Pool: m}, err
}

func (s *poolService) DrainPool(_ context.Context, req *rtdv1.DrainPoolRequest) (*rtdv1.DrainPoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "drained", (*pool.Pool).Drain)
	return &rtdv1.DrainPoolResponse{Pool: m}, err
}

func (s *poolService) RecyclePool(_ context.Context, req *rtdv1.RecyclePoolRequest) (*rtdv1.RecyclePoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "recycled", (*pool.Pool).Recycle)
	return &rtdv1.RecyclePoolResponse{Pool: m}, err
}

// onPool does one verb to the pool of that name.
func (d *Daemon) onPool(name, done string, verb func(*pool.Pool)) (*rtdv1.Pool, error) {
	p, err := d.findPool(name)
	if err != nil {
		return nil, err
	}
	verb(p)
	d.log.Info("pool "+done, "pool", p.Name())
	return d.poolMessage(p), nil
}

// findPool finds a pool by key or name; "" is the only one there is.
func (d *Daemon) findPool(name string) (*pool.Pool, error) {
	all := d.pools.List()
	var found []*pool.Pool
	for _, p := range all {
		if name == "" || name == p.Key() || name == p.Name() {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return nil, status.Errorf(codes.NotFound, "no pool %q; there are: %s", name, poolNames(all))
	case name == "":
		return nil, status.Errorf(codes.InvalidArgument, "there are %d pools: name one of %s", len(found), poolNames(found))
	}
	return nil, status.Errorf(codes.InvalidArgument, "%d pools are named %q: give the key, one of %s", len(found), name, poolKeys(found))
}

func poolNames(pools []*pool.Pool) string {
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Name()
	}
	return strings.Join(names, ", ")
}

func poolKeys(pools []*pool.Pool) string {
	keys := make([]string, len(pools))
	for i, p := range pools {
		keys[i] = p.Key()
	}
	return strings.Join(keys, ", ")
}

func poolStatus(err error) error {
	switch {
	case errors.Is(err, pool.ErrSize):
		return status.Error(codes.OutOfRange, err.Error())
	case errors.Is(err, pool.ErrClosed):
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

func (d *Daemon) poolMessages() []*rtdv1.Pool {
	var list []*rtdv1.Pool
	for _, p := range d.pools.List() {
		list = append(list, d.poolMessage(p))
	}
	return list
}

func (d *Daemon) poolMessage(p *pool.Pool) *rtdv1.Pool {
	s := p.Stats()
	now := time.Now()
	m := &rtdv1.Pool{
		Key: s.Key, Name: s.Name, Target: d.targetURL(s.Key),
		Size: uint32(s.Size), MaxSize: uint32(s.MaxSize), MaxConnections: uint32(s.MaxConnections),
		Paused: s.Paused,
		Idle:   uint32(s.Idle), Dialing: uint32(s.Dialing), Active: uint32(s.Active), Closing: uint32(s.Closing), Recycling: uint32(s.Due),
		Takes: s.Takes, Hits: s.Hits, Misses: s.Misses, Dials: s.Dials,
		DialsFailed: named(s.DialsFailed[:], func(i int) fmt.Stringer { return pool.Class(i) }),
		Evicted:     named(s.Evicted[:], func(i int) fmt.Stringer { return pool.Reason(i) }),
		Skipped:     named(s.Skipped[:], func(i int) fmt.Stringer { return pool.Skip(i) }),
	}
	if until := latest(s.BackoffTill, s.RefuseTill); !until.IsZero() && s.LastError != nil {
		m.Backoff = &rtdv1.Backoff{Class: s.LastError.Class.String(), NextAttemptIn: durationpb.New(until.Sub(now))}
	}
	if s.LastError != nil {
		m.LastFailure = &rtdv1.DialFailure{
			Class:   s.LastError.Class.String(),
			Message: d.redact.String(s.LastError.Error()),
			Age:     durationpb.New(now.Sub(s.LastErrorAt)),
		}
	}
	if s.Idle > 0 {
		m.OldestAge = durationpb.New(s.Oldest)
	}
	if !s.NextRetirement.IsZero() {
		m.NextRetirementIn = durationpb.New(s.NextRetirement.Sub(now))
	}
	return m
}

// named gives counters their names and leaves out those that are zero.
func named(counters []uint64, name func(int) fmt.Stringer) map[string]uint64 {
	m := map[string]uint64{}
	for i, n := range counters {
		if n > 0 {
			m[name(i).String()] = n
		}
	}
	return m
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// daemonService adapts the daemon as a whole to gRPC.
type daemonService struct {
	rtdv1.UnimplementedDaemonServiceServer
	d *Daemon
}

func (s *daemonService) GetInfo(context.Context, *rtdv1.GetInfoRequest) (*rtdv1.GetInfoResponse, error) {
	return &rtdv1.GetInfoResponse{Info: s.d.info()}, nil
}

func (d *Daemon) info() *rtdv1.DaemonInfo {
	build, now := ReadBuild(), time.Now()
	m := &rtdv1.DaemonInfo{
		Version: build.Version, Commit: build.Commit, GoVersion: build.Go,
		Pid: uint32(os.Getpid()), StartedAt: timestamppb.New(d.started), Uptime: durationpb.New(now.Sub(d.started)),
		State: rtdv1.DaemonState_DAEMON_STATE_SERVING, NotReadyReason: d.notReady(),
		Listeners: d.listeners.messages(),
		Sessions:  uint32(d.sessions.len()),
	}
	m.Ready = m.NotReadyReason == ""
	m.State, m.Drain = d.drainState()
	for _, model := range d.current().routes.models() {
		m.Routes = append(m.Routes, &rtdv1.Route{Model: model, Target: d.current().routes.byModel[model].endpoint.Name})
	}
	for _, p := range d.pools.List() {
		s := p.Stats()
		m.Pools++
		m.Warm += uint32(s.Idle)
		m.WarmTarget += uint32(s.Size)
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
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		state, progress := s.d.drainState()
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
		case <-tick.C:
		case <-dr.resumed:
			return status.Error(codes.Aborted, "the drain was ended by a resume")
		case <-stream.Context().Done():
			return nil
		case <-s.d.stopping:
			return status.Error(codes.Unavailable, errStopping.Error())
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
	dr, stopping := d.drains.current, d.drains.stopping
	d.drains.mu.Unlock()
	if dr == nil {
		return rtdv1.DaemonState_DAEMON_STATE_SERVING, nil
	}
	dr.mu.Lock()
	defer dr.mu.Unlock()
	remaining := d.sessions.len()
	m := &rtdv1.Drain{
		Remaining: uint32(remaining),
		Ended:     uint32(d.endedAlone.Load() - dr.ended),
		Forced:    uint32(dr.forced),
		Elapsed:   durationpb.New(time.Since(dr.begun)),
	}
	if !dr.next.IsZero() {
		m.Left = durationpb.New(time.Until(dr.next))
	}
	switch {
	case stopping:
		return rtdv1.DaemonState_DAEMON_STATE_STOPPING, m
	case remaining == 0:
		return rtdv1.DaemonState_DAEMON_STATE_DRAINED, m
	}
	return rtdv1.DaemonState_DAEMON_STATE_DRAINING, m
}
