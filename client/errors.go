package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of calls.
var (
	// ErrUnreachable: no daemon answers at the endpoint, or it does not let this user in.
	ErrUnreachable = errors.New("daemon unreachable")
	// ErrStopped: the daemon ended the call because it stops.
	ErrStopped = errors.New("daemon stopped")
	// ErrInvalid: the daemon refuses an argument.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: an argument names nothing there is.
	ErrNotFound = errors.New("not found")
	// ErrDenied: this user, or this certificate, may read and not change.
	ErrDenied = errors.New("permission denied")
	// ErrUnsupported: the daemon is older than this client.
	ErrUnsupported = errors.New("unsupported by the daemon")
)

// callError reads as one line and unwraps to what callers switch on.
type callError struct {
	kind error
	text string
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.kind }

// kinds maps the codes whose message the daemon words for people.
var kinds = map[codes.Code]error{
	codes.InvalidArgument:  ErrInvalid,
	codes.OutOfRange:       ErrInvalid,
	codes.NotFound:         ErrNotFound,
	codes.PermissionDenied: ErrDenied,
}

// fail turns the error of a call into one of this package.
func (c *Client) fail(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	text := oneLine(st.Message())
	switch st.Code() {
	case codes.Unavailable:
		return c.unavailable(text)
	case codes.Canceled:
		return &callError{context.Canceled, "canceled"}
	case codes.DeadlineExceeded:
		return &callError{context.DeadlineExceeded, fmt.Sprintf("rtd at %s does not answer in time", c.name)}
	case codes.Unimplemented:
		return c.unsupported(text)
	}
	if kind, ok := kinds[st.Code()]; ok {
		return &callError{kind, text}
	}
	return &callError{err, fmt.Sprintf("rtd at %s: %s", c.name, text)}
}

// unknownMethod finds the call in what a server says that does not have it.
var unknownMethod = regexp.MustCompile(`\bmethod (\w+) (for service|not implemented)`)

func (c *Client) unsupported(text string) error {
	daemon, what := "rtd at "+c.name, "this call"
	if version := c.version.Load(); version != nil && *version != "" {
		daemon += " (" + *version + ")"
	}
	if match := unknownMethod.FindStringSubmatch(text); match != nil {
		what = match[1]
	}
	return &callError{ErrUnsupported, fmt.Sprintf("%s does not know %s; upgrade it", daemon, what)}
}

func (c *Client) unavailable(text string) error {
	last := c.dialErr.Load()
	if last == nil || *last == nil {
		if strings.Contains(text, "reading server preface") { // it took the connection, and then said nothing, or hung up
			return &callError{ErrUnreachable, fmt.Sprintf("rtd at %s does not answer: it hangs, or something else listens there", c.name)}
		}
		if text == "" {
			text = "connection lost"
		}
		return &callError{ErrStopped, fmt.Sprintf("rtd at %s is gone: %s", c.name, text)}
	}
	if c.network == "tcp" {
		return &callError{ErrUnreachable, c.unreachableTCP(*last)}
	}
	return &callError{ErrUnreachable, unreachable(c.name, *last)}
}

func (c *Client) unreachableTCP(err error) string {
	unknown, invalid, host := x509.UnknownAuthorityError{}, x509.CertificateInvalidError{}, x509.HostnameError{}
	switch said := refusal(err); {
	case said == "certificate required":
		return fmt.Sprintf("rtd at %s asks for a client certificate, and got none", c.name)
	case said != "":
		return fmt.Sprintf("rtd at %s refuses the certificate of this client: %s", c.name, said)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no rtd at %s: nothing listens there; is it running, with control.listen?", c.name)
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &host):
		return fmt.Sprintf("rtd at %s shows a certificate that cannot be trusted: %s", c.name, oneLine(err.Error()))
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("no rtd at %s: whatever listens there hung up", c.name)
	}
	return unreachableFor(c.name, err)
}

func unreachable(path string, err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("no rtd at %s: there is no such socket; is it running?", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no rtd at %s: nothing listens on the socket; is it running?", path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("no access to rtd at %s: run as root or join the group of the socket", path)
	}
	return unreachableFor(path, err)
}

func unreachableFor(name string, err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Sprintf("no rtd at %s: %s", name, oneLine(err.Error()))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
