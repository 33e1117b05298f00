package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/pool"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// poolService adapts the pools to gRPC.
type poolService struct {
	rtdv1.UnimplementedPoolServiceServer
	d        *Daemon
	resizing sync.Mutex // makes the sizes in an answer to ResizePool those of that call
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
	s.resizing.Lock()
	defer s.resizing.Unlock()
	before := p.Stats().Size
	if err := p.Resize(int(req.GetSize())); err != nil {
		return nil, poolStatus(err)
	}
	s.d.log.Info("pool resized", "pool", p.Name(), "from", before, "to", req.GetSize())
	return &rtdv1.ResizePoolResponse{Pool: s.d.poolMessage(p), PreviousSize: count(before)}, nil
}

func (s *poolService) PausePool(_ context.Context, req *rtdv1.PausePoolRequest) (*rtdv1.PausePoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "paused", func(p *pool.Pool) { s.d.setPaused(p, true, p.Pause) })
	return &rtdv1.PausePoolResponse{Pool: m}, err
}

func (s *poolService) ResumePool(_ context.Context, req *rtdv1.ResumePoolRequest) (*rtdv1.ResumePoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "resumed", func(p *pool.Pool) { s.d.setPaused(p, false, p.Resume) })
	return &rtdv1.ResumePoolResponse{Pool: m}, err
}

func (s *poolService) DrainPool(_ context.Context, req *rtdv1.DrainPoolRequest) (*rtdv1.DrainPoolResponse, error) {
	m, err := s.d.onPool(req.GetPool(), "drained", func(p *pool.Pool) { s.d.setPaused(p, true, p.Drain) })
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
	case len(all) == 0:
		return nil, status.Error(codes.NotFound, "there are no pools yet: the first client of a model makes one")
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
	return renderPool(s, d.served(s.Key), time.Now(), d.redact.String)
}

// renderPool says in a message what s says, as of now.
func renderPool(s pool.Stats, of served, now time.Time, redact func(string) string) *rtdv1.Pool {
	m := &rtdv1.Pool{
		Key: s.Key, Name: s.Name, Target: of.url, Preset: of.preset,
		Size: count(s.Size), MaxSize: count(s.MaxSize), MaxConnections: count(s.MaxConnections), MaxDialing: count(s.MaxDialing),
		Paused: s.Paused,
		Idle:   count(s.Idle), Dialing: count(s.Dialing), Active: count(s.Active), Closing: count(s.Closing), Recycling: count(s.Due),
		Waiting: count(s.Waiting), FailuresInRow: count(s.Failures), DialLimit: count(s.Concurrency),
		Takes: s.Takes, Hits: s.Hits, Misses: s.Misses, Dials: s.Dials,
		DialsFailed: named(s.DialsFailed[:], func(i int) fmt.Stringer { return pool.Class(i) }),
		Evicted:     named(s.Evicted[:], func(i int) fmt.Stringer { return pool.Reason(i) }),
		Skipped:     named(s.Skipped[:], func(i int) fmt.Stringer { return pool.Skip(i) }),
	}
	if s.Blocked != pool.SkipNone {
		m.Blocked = s.Blocked.String()
	}
	if until := latest(s.BackoffTill, s.RefuseTill); !until.IsZero() && s.LastError != nil {
		m.Backoff = &rtdv1.Backoff{Class: s.LastError.Class.String(), NextAttemptIn: untilThen(until, now)}
	}
	if s.LastError != nil {
		m.LastFailure = &rtdv1.DialFailure{
			Class:   s.LastError.Class.String(),
			Message: redact(s.LastError.Error()),
			Age:     durationpb.New(now.Sub(s.LastErrorAt)),
		}
	}
	if s.Idle > 0 {
		m.OldestAge, m.YoungestAge = durationpb.New(s.Oldest), durationpb.New(s.Youngest)
	}
	if !s.NextRetirement.IsZero() {
		m.NextRetirementIn = untilThen(s.NextRetirement, now)
	}
	return m
}

// untilThen is the time left; none when then has passed and the pool has not got to it yet.
func untilThen(then, now time.Time) *durationpb.Duration {
	return durationpb.New(max(0, then.Sub(now)))
}

// count is a number of things, of which there are never more than the wire type holds.
func count(n int) uint32 { return uint32(n) }

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
