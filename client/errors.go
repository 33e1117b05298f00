package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of calls.
var (
	// ErrUnreachable: no daemon answers at the socket, or this user may not open it.
	ErrUnreachable = errors.New("daemon unreachable")
	// ErrStopped: the daemon ended the call because it stops.
	ErrStopped = errors.New("daemon stopped")
	// ErrInvalid: the daemon refuses an argument.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: an argument names nothing there is.
	ErrNotFound = errors.New("not found")
	// ErrDenied: this user may read and not change.
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
		return &callError{context.DeadlineExceeded, fmt.Sprintf("rtd at %s does not answer in time", c.path)}
	case codes.Unimplemented:
		return &callError{ErrUnsupported, fmt.Sprintf("rtd at %s does not know this call: it is of another version", c.path)}
	}
	if kind, ok := kinds[st.Code()]; ok {
		return &callError{kind, text}
	}
	return &callError{err, fmt.Sprintf("rtd at %s: %s", c.path, text)}
}

func (c *Client) unavailable(text string) error {
	last := c.dialErr.Load()
	if last == nil || *last == nil {
		if text == "" {
			text = "connection lost"
		}
		return &callError{ErrStopped, fmt.Sprintf("rtd at %s is gone: %s", c.path, text)}
	}
	return &callError{ErrUnreachable, unreachable(c.path, *last)}
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
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Sprintf("no rtd at %s: %s", path, oneLine(err.Error()))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
