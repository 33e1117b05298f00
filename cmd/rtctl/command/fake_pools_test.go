package command

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// find resolves the name of a pool as proto/rtd/v1/pool.proto says.
func (f *fake) find(name string) (*rtdv1.Pool, error) {
	var names []string
	var found []*rtdv1.Pool
	for _, p := range f.pools {
		names = append(names, p.GetName())
		if name == "" || name == p.GetName() || name == p.GetKey() {
			found = append(found, p)
		}
	}
	switch all := strings.Join(names, ", "); {
	case len(found) == 0:
		return nil, status.Errorf(codes.NotFound, "no pool %q; there are: %s", name, all)
	case len(found) > 1:
		return nil, status.Errorf(codes.InvalidArgument, "there are %d pools: name one of %s", len(found), all)
	}
	return found[0], nil
}

func (f *fake) ListPools(context.Context, *rtdv1.ListPoolsRequest) (*rtdv1.ListPoolsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &rtdv1.ListPoolsResponse{Pools: f.pools}, nil
}

func (f *fake) GetPool(_ context.Context, req *rtdv1.GetPoolRequest) (*rtdv1.GetPoolResponse, error) {
	p, err := f.change(req.GetPool(), func(p *rtdv1.Pool) {
		if !f.stuck {
			p.Closing -= min(p.Closing, 1)
			p.Recycling -= min(p.Recycling, 1)
			if !p.Paused {
				p.Idle += min(p.Size-min(p.Size, p.Idle), 32)
			}
		}
	})
	return &rtdv1.GetPoolResponse{Pool: p}, err
}

func (f *fake) PausePool(_ context.Context, req *rtdv1.PausePoolRequest) (*rtdv1.PausePoolResponse, error) {
	p, err := f.change(req.GetPool(), func(p *rtdv1.Pool) { p.Paused = true })
	return &rtdv1.PausePoolResponse{Pool: p}, err
}

func (f *fake) ResumePool(_ context.Context, req *rtdv1.ResumePoolRequest) (*rtdv1.ResumePoolResponse, error) {
	p, err := f.change(req.GetPool(), func(p *rtdv1.Pool) { p.Paused = false })
	return &rtdv1.ResumePoolResponse{Pool: p}, err
}

// DrainPool leaves closes to finish, which every look at the pool brings one further.
func (f *fake) DrainPool(_ context.Context, req *rtdv1.DrainPoolRequest) (*rtdv1.DrainPoolResponse, error) {
	p, err := f.change(req.GetPool(), func(p *rtdv1.Pool) { p.Paused, p.Closing, p.Idle = true, 3, 0 })
	return &rtdv1.DrainPoolResponse{Pool: p}, err
}

// RecyclePool leaves replacements to come, likewise.
func (f *fake) RecyclePool(_ context.Context, req *rtdv1.RecyclePoolRequest) (*rtdv1.RecyclePoolResponse, error) {
	p, err := f.change(req.GetPool(), func(p *rtdv1.Pool) { p.Recycling = 3 })
	return &rtdv1.RecyclePoolResponse{Pool: p}, err
}

func (f *fake) ResizePool(_ context.Context, req *rtdv1.ResizePoolRequest) (*rtdv1.ResizePoolResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.find(req.GetPool())
	if err != nil {
		return nil, err
	}
	if req.GetSize() > p.GetMaxSize() {
		return nil, status.Errorf(codes.OutOfRange, "size %d is not between 0 and %d", req.GetSize(), p.GetMaxSize())
	}
	before := p.GetSize()
	p.Size = req.GetSize()
	p.Idle = min(p.Idle, p.Size)
	return &rtdv1.ResizePoolResponse{Pool: p, PreviousSize: before}, nil
}

// change applies f to a pool and returns a copy of it.
func (f *fake) change(name string, apply func(*rtdv1.Pool)) (*rtdv1.Pool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.find(name)
	if err != nil {
		return nil, err
	}
	apply(p)
	return proto.CloneOf(p), nil
}
