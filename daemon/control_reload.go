package daemon

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (s *daemonService) ReloadDaemon(context.Context, *rtdv1.ReloadDaemonRequest) (*rtdv1.ReloadDaemonResponse, error) {
	changes, err := s.d.ReloadFromSource()
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, s.d.redact.String(err.Error()))
	}
	return &rtdv1.ReloadDaemonResponse{
		Info:          s.d.info(),
		PoolsAdded:    count(changes.Added),
		PoolsRemoved:  count(changes.Removed),
		PoolsRecycled: count(changes.Recycled),
	}, nil
}
