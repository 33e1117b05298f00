package client_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (f *fake) ReloadDaemon(context.Context, *rtdv1.ReloadDaemonRequest) (*rtdv1.ReloadDaemonResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &rtdv1.ReloadDaemonResponse{PoolsAdded: 1}, f.fail
}

func TestReload(t *testing.T) {
	f, c := start(t)
	res, err := c.Reload(t.Context())
	if err != nil || res.GetPoolsAdded() != 1 {
		t.Errorf("%v, %v", res, err)
	}
	f.mu.Lock()
	f.fail = status.Error(codes.FailedPrecondition, "first fault\nsecond fault")
	f.mu.Unlock()
	if _, err := c.Reload(t.Context()); !errors.Is(err, client.ErrRefused) || err.Error() != "the old configuration stays: first fault; second fault" {
		t.Errorf("%v", err)
	}
	f.server.Stop()
	if _, err := c.Reload(t.Context()); err == nil || errors.Is(err, client.ErrRefused) {
		t.Errorf("%v", err)
	}
}
