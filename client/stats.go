package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Stats returns one snapshot of everything the daemon measures.
func (c *Client) Stats(ctx context.Context) (*rtdv1.Stats, error) {
	res, err := c.stats.GetStats(ctx, &rtdv1.GetStatsRequest{})
	return res.GetStats(), c.fail(err)
}

// WatchStats yields a snapshot at once and then one per interval, 100 ms to 1 h. The
// last pair of a stream that did not end by itself holds the error.
func (c *Client) WatchStats(ctx context.Context, interval time.Duration) iter.Seq2[*rtdv1.Stats, error] {
	return stream(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[rtdv1.WatchStatsResponse], error) {
		return c.stats.WatchStats(ctx, &rtdv1.WatchStatsRequest{Interval: durationpb.New(interval)})
	}, (*rtdv1.WatchStatsResponse).GetStats)
}
