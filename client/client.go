// Package client talks to a running rtd over its control socket.
//
// A Client is safe for concurrent use and connects on first use. It answers in the
// messages of package rtdv1, whose comments give units. Every error is one line for
// people to read, secrets never in it, and wraps one of the sentinels here or the
// error of the context. Calls wait as long as their context lets them, so callers
// set a deadline; streams end with their context, when the loop over them is left,
// or with ErrStopped. The caller closes the Client.
package client

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Client is a connection to one daemon.
type Client struct {
	path    string
	conn    *grpc.ClientConn
	dialErr atomic.Pointer[error] // of the last attempt to connect

	pools    rtdv1.PoolServiceClient
	stats    rtdv1.StatsServiceClient
	sessions rtdv1.SessionServiceClient
	daemon   rtdv1.DaemonServiceClient
}

// New returns a client of the daemon at endpoint: the path of a Unix socket, bare or
// as unix:///path. An empty endpoint is looked for: $RTD_SOCKET, /run/rtd/rtd.sock,
// $XDG_RUNTIME_DIR/rtd/rtd.sock, then /tmp/rtd-UID/rtd.sock. New does not connect;
// errors wrap ErrInvalid for an endpoint that cannot be one.
func New(endpoint string) (*Client, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{path: path}
	// The dialer leaves nothing for a resolver or a proxy to decide, whatever the
	// environment says.
	c.conn, err = grpc.NewClient("passthrough:///localhost",
		grpc.WithAuthority("localhost"),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(c.dial),
		grpc.WithTransportCredentials(unixsock.Credentials()),
	)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c.pools = rtdv1.NewPoolServiceClient(c.conn)
	c.stats = rtdv1.NewStatsServiceClient(c.conn)
	c.sessions = rtdv1.NewSessionServiceClient(c.conn)
	c.daemon = rtdv1.NewDaemonServiceClient(c.conn)
	return c, nil
}

// Close ends the connection and every stream on it.
func (c *Client) Close() error { return c.conn.Close() }

// Socket is the path this client connects to.
func (c *Client) Socket() string { return c.path }

func (c *Client) dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.path)
	c.dialErr.Store(&err)
	return conn, err
}

func socketPath(endpoint string) (string, error) {
	if endpoint == "" {
		path, err := unixsock.FindSocket()
		if err != nil {
			return "", fmt.Errorf("look for the control socket: %w", err)
		}
		return path, nil
	}
	path, unix := strings.CutPrefix(endpoint, "unix://")
	if !unix {
		path = strings.TrimPrefix(endpoint, "unix:")
	}
	if path == "" || strings.Contains(path, "://") {
		return "", &callError{ErrInvalid, fmt.Sprintf("endpoint %q is no Unix socket: give a path or unix:///path", endpoint)}
	}
	return path, nil
}
