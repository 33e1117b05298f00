package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrBadHandshake is wrapped by the error of a dial whose server answered with something that is not a valid HTTP
// response, or with a 101 that RFC 6455 section 4.1 tells a client to fail.
var ErrBadHandshake = errors.New("invalid answer to the upgrade")

// Dialer opens WebSocket connections. The zero value is ready to use; it is safe for concurrent use as long as
// its fields are not changed.
type Dialer struct {
	TLSConfig *tls.Config
	NetDial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Timing is how long each step of a dial took; zero where the step did not happen.
type Timing struct{ DNS, TCP, TLS, Upgrade time.Duration }

// Upstream is an open WebSocket.
type Upstream struct {
	Conn     net.Conn
	Early    []byte
	Header   http.Header
	Protocol string
	Timing   Timing
}

// StatusError is an HTTP answer other than 101.
type StatusError struct {
	Status     int
	RetryAfter time.Duration
	Body       []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("upgrade refused with status %d %s", e.Status, http.StatusText(e.Status))
}

// Dial opens a WebSocket to u.
func (d *Dialer) Dial(ctx context.Context, u *url.URL, header http.Header, protocols []string) (*Upstream, error) {
	return nil, errors.New("not yet")
}
