package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/rtd-project/rtd/internal/unixsock"
)

// tcpScheme begins the endpoint of a daemon that is reached over a network.
const tcpScheme = "tcp://"

// Option says more about how a Client connects.
type Option func(*Client)

// WithTLS is needed for tcp:// endpoints, and of no effect for Unix sockets, which the kernel vouches for. config holds the
// certificate that the daemon knows this client by, and the authorities of the daemon's own (nil: the system's). Its
// ServerName defaults to the host of the endpoint. TLS 1.3 is spoken whatever it says. The Client takes a copy.
func WithTLS(config *tls.Config) Option {
	return func(c *Client) { c.tls = config.Clone() }
}

// find resolves an endpoint to what is dialled.
func (c *Client) find(endpoint string) error {
	if endpoint == "" {
		found, err := unixsock.FindSocket()
		if err != nil {
			return fmt.Errorf("look for the control socket: %w", err)
		}
		endpoint = found
	}
	if address, ok := strings.CutPrefix(endpoint, tcpScheme); ok {
		return c.findTCP(address)
	}
	path, unix := strings.CutPrefix(endpoint, "unix://")
	if !unix {
		path = strings.TrimPrefix(endpoint, "unix:")
	}
	if path == "" || strings.Contains(path, "://") {
		return &callError{ErrInvalid, fmt.Sprintf("endpoint %q is none: give the path of a socket, unix:///path or tcp://host:port", endpoint)}
	}
	c.network, c.address, c.authority, c.name = "unix", path, "localhost", path
	c.credentials = unixsock.Credentials()
	return nil
}

func (c *Client) findTCP(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return &callError{ErrInvalid, fmt.Sprintf("endpoint %q is no tcp://host:port", tcpScheme+address)}
	}
	if c.tls == nil || (len(c.tls.Certificates) == 0 && c.tls.GetClientCertificate == nil) {
		return &callError{ErrInvalid, fmt.Sprintf("endpoint %q takes a client certificate", tcpScheme+address)}
	}
	if c.tls.ServerName == "" {
		c.tls.ServerName = host
	}
	c.network, c.address, c.authority, c.name = "tcp", address, c.tls.ServerName, tcpScheme+address
	c.tls.MinVersion = tls.VersionTLS13
	if c.tls.GetClientCertificate == nil {
		// Also one of an authority that the daemon did not ask for, so that its answer says what is wrong with it.
		cert := &c.tls.Certificates[0]
		c.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	c.credentials = &mutualTLS{credentials.NewTLS(c.tls), c}
	return nil
}

// mutualTLS is TLS that knows how the handshake ended at the other end, too. In TLS 1.3 a client is done before the server
// has looked at its certificate; what the server says to that is in place of its first bytes.
type mutualTLS struct {
	credentials.TransportCredentials
	c *Client
}

// ClientHandshake implements credentials.TransportCredentials. ctx bounds the wait for the first byte as well: rtd speaks first.
func (m *mutualTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := m.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err == nil {
		conn, err = awaitFirst(ctx, conn)
	}
	if err != nil {
		m.c.dialErr.Store(&err)
		return nil, nil, err
	}
	return conn, info, nil
}

// Clone implements credentials.TransportCredentials.
func (m *mutualTLS) Clone() credentials.TransportCredentials {
	return &mutualTLS{m.TransportCredentials.Clone(), m.c}
}

// begun is a connection whose first byte was read already.
type begun struct {
	net.Conn
	first []byte
}

func awaitFirst(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	first := make([]byte, 1)
	_, err := io.ReadFull(conn, first)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &begun{conn, first}, nil
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) > 0 && len(p) > 0 {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// refusal is what the daemon said against this client's certificate, "" for nothing.
func refusal(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return ""
	}
	return strings.TrimPrefix(op.Err.Error(), "tls: ")
}
