package client

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// ErrRefused says that the daemon cannot work with its new configuration and goes on with the one it has.
var ErrRefused = errors.New("configuration refused")

// Reload makes the daemon read its configuration again. Errors wrap ErrRefused, with every fault, when nothing was changed.
func (c *Client) Reload(ctx context.Context) (*rtdv1.ReloadDaemonResponse, error) {
	res, err := c.daemon.ReloadDaemon(ctx, &rtdv1.ReloadDaemonRequest{})
	if st := status.Convert(err); st.Code() == codes.FailedPrecondition {
		faults := strings.Split(st.Message(), "\n")
		return nil, &callError{ErrRefused, "the old configuration stays: " + strings.Join(faults, "; ")}
	}
	return res, c.fail(err)
}
