package client

import (
	"context"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Pools returns every pool, sorted by name.
func (c *Client) Pools(ctx context.Context) ([]*rtdv1.Pool, error) {
	res, err := c.pools.ListPools(ctx, &rtdv1.ListPoolsRequest{})
	return res.GetPools(), c.fail(err)
}

// Pool returns the pool of a name or key; the only one there is for "". ErrNotFound
// and ErrInvalid (several fit) name the pools to choose from, here and in the calls below.
func (c *Client) Pool(ctx context.Context, pool string) (*rtdv1.Pool, error) {
	res, err := c.pools.GetPool(ctx, &rtdv1.GetPoolRequest{Pool: pool})
	return res.GetPool(), c.fail(err)
}

// ResizePool sets the number of idle sessions a pool keeps. It returns when the size
// is in force, with the size before, and does not wait for the sessions. ErrInvalid
// when it is above the maximum of the pool.
func (c *Client) ResizePool(ctx context.Context, pool string, size uint32) (now *rtdv1.Pool, before uint32, err error) {
	res, err := c.pools.ResizePool(ctx, &rtdv1.ResizePoolRequest{Pool: pool, Size: size})
	return res.GetPool(), res.GetPreviousSize(), c.fail(err)
}

// PausePool stops a pool from dialling ahead. What is idle is kept and served.
func (c *Client) PausePool(ctx context.Context, pool string) (*rtdv1.Pool, error) {
	res, err := c.pools.PausePool(ctx, &rtdv1.PausePoolRequest{Pool: pool})
	return res.GetPool(), c.fail(err)
}

// ResumePool ends a pause or a drain of a pool.
func (c *Client) ResumePool(ctx context.Context, pool string) (*rtdv1.Pool, error) {
	res, err := c.pools.ResumePool(ctx, &rtdv1.ResumePoolRequest{Pool: pool})
	return res.GetPool(), c.fail(err)
}

// DrainPool closes the idle sessions of a pool and pauses it. It does not wait for
// the closes to finish.
func (c *Client) DrainPool(ctx context.Context, pool string) (*rtdv1.Pool, error) {
	res, err := c.pools.DrainPool(ctx, &rtdv1.DrainPoolRequest{Pool: pool})
	return res.GetPool(), c.fail(err)
}

// RecyclePool replaces every idle session of a pool. It does not wait for it: the
// field Recycling of the pool counts down to 0.
func (c *Client) RecyclePool(ctx context.Context, pool string) (*rtdv1.Pool, error) {
	res, err := c.pools.RecyclePool(ctx, &rtdv1.RecyclePoolRequest{Pool: pool})
	return res.GetPool(), c.fail(err)
}
