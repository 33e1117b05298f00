package client

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// DefaultGrace leaves the timeout of Drain to the daemon's own grace period.
const DefaultGrace time.Duration = -1

// Info says what runs, where it listens and whether it is ready.
func (c *Client) Info(ctx context.Context) (*rtdv1.DaemonInfo, error) {
	res, err := c.daemon.GetInfo(ctx, &rtdv1.GetInfoRequest{})
	if version := res.GetInfo().GetVersion(); err == nil {
		c.version.Store(&version)
	}
	return res.GetInfo(), c.fail(err)
}

// Drain makes the daemon refuse new clients and gives its sessions until timeout to
// end, 0 for none, before it ends them. It yields the progress at once, then at least
// each second, last with state DRAINED. The drain goes on when the loop is left.
func (c *Client) Drain(ctx context.Context, timeout time.Duration) iter.Seq2[*rtdv1.DrainDaemonResponse, error] {
	req := &rtdv1.DrainDaemonRequest{}
	if timeout >= 0 {
		req.Timeout = durationpb.New(timeout)
	}
	return stream(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[rtdv1.DrainDaemonResponse], error) {
		return c.daemon.DrainDaemon(ctx, req)
	}, func(step *rtdv1.DrainDaemonResponse) *rtdv1.DrainDaemonResponse { return step })
}

// Resume ends a drain: the daemon takes clients again.
func (c *Client) Resume(ctx context.Context) (*rtdv1.DaemonInfo, error) {
	res, err := c.daemon.ResumeDaemon(ctx, &rtdv1.ResumeDaemonRequest{})
	return res.GetInfo(), c.fail(err)
}

// LogLevel returns the level in force.
func (c *Client) LogLevel(ctx context.Context) (rtdv1.LogLevel, error) {
	res, err := c.daemon.GetLogLevel(ctx, &rtdv1.GetLogLevelRequest{})
	return res.GetLevel(), c.fail(err)
}

// ConfiguredLogLevel returns the level that ResetLogLevel goes back to.
func (c *Client) ConfiguredLogLevel(ctx context.Context) (rtdv1.LogLevel, error) {
	res, err := c.daemon.GetLogLevel(ctx, &rtdv1.GetLogLevelRequest{})
	return res.GetConfigured(), c.fail(err)
}

// SetLogLevel sets the level until the next start and returns the one before.
func (c *Client) SetLogLevel(ctx context.Context, level rtdv1.LogLevel) (before rtdv1.LogLevel, err error) {
	res, err := c.daemon.SetLogLevel(ctx, &rtdv1.SetLogLevelRequest{Level: level})
	return res.GetPrevious(), c.fail(err)
}

// ResetLogLevel goes back to the configured level and returns it with the one before.
func (c *Client) ResetLogLevel(ctx context.Context) (level, before rtdv1.LogLevel, err error) {
	res, err := c.daemon.SetLogLevel(ctx, &rtdv1.SetLogLevelRequest{UseConfigured: true})
	return res.GetLevel(), res.GetPrevious(), c.fail(err)
}

// Config returns the configuration in force and where each value comes from.
func (c *Client) Config(ctx context.Context) (*rtdv1.GetConfigResponse, error) {
	res, err := c.daemon.GetConfig(ctx, &rtdv1.GetConfigRequest{})
	return res, c.fail(err)
}

// Diagnostics yields, piece by piece and file after file, what only the daemon can tell of
// its own inside: goroutines, heap profile, last log lines. Only admins may ask.
func (c *Client) Diagnostics(ctx context.Context) iter.Seq2[*rtdv1.CollectDiagnosticsResponse, error] {
	return stream(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[rtdv1.CollectDiagnosticsResponse], error) {
		return c.daemon.CollectDiagnostics(ctx, &rtdv1.CollectDiagnosticsRequest{})
	}, func(piece *rtdv1.CollectDiagnosticsResponse) *rtdv1.CollectDiagnosticsResponse { return piece })
}
