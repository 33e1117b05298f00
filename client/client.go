// Package client talks to a running rtd over its control socket, or over TCP with TLS on both sides.
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
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Client is a connection to one daemon.
type Client struct {
	network, address string // what is dialled
	authority        string // what the daemon is asked for as
	name             string // for people, and good as an endpoint
	tls              *tls.Config
	credentials      credentials.TransportCredentials
	conn             *grpc.ClientConn
	dialErr          atomic.Pointer[error]  // of the last attempt to connect
	version          atomic.Pointer[string] // of the daemon, once Info has told

	pools    rtdv1.PoolServiceClient
	stats    rtdv1.StatsServiceClient
	sessions rtdv1.SessionServiceClient
	daemon   rtdv1.DaemonServiceClient
}

// New returns a client of the daemon at endpoint: the path of a Unix socket, bare or as unix:///path, or tcp://host:port,
// which takes WithTLS. An empty endpoint is looked for: $RTD_SOCKET, /run/rtd/rtd.sock, $XDG_RUNTIME_DIR/rtd/rtd.sock, then
// /tmp/rtd-UID/rtd.sock. New does not connect; errors wrap ErrInvalid for an endpoint that cannot be one.
func New(endpoint string, options ...Option) (*Client, error) {
	c := &Client{}
	for _, option := range options {
		option(c)
	}
	err := c.find(endpoint)
	if err != nil {
		return nil, err
	}
	// The dialer leaves nothing for a resolver or a proxy to decide, whatever the environment says.
	c.conn, err = grpc.NewClient("passthrough:///localhost",
		grpc.WithAuthority(c.authority),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(c.dial),
		grpc.WithTransportCredentials(c.credentials),
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

// Endpoint is what this client connects to: the path of a socket, or tcp://host:port.
func (c *Client) Endpoint() string { return c.name }

func (c *Client) dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, c.network, c.address)
	c.dialErr.Store(&err)
	return conn, err
}
