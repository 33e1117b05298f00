package client

import (
	"context"
	"time"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// MintToken makes a short-lived token in the name of a client key. Its value is a secret. ErrInvalid when what is asked
// cannot be granted.
func (c *Client) MintToken(ctx context.Context, req *rtdv1.MintTokenRequest) (value string, expires time.Time, err error) {
	res, err := c.daemon.MintToken(ctx, req)
	return res.GetValue(), res.GetExpiresAt().AsTime(), c.fail(err)
}
