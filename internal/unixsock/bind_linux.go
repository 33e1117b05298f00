package unixsock

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenPrivate binds a socket that only its owner can open. On Linux bind(2) takes
// the mode from the socket itself, so the process-wide umask stays untouched.
func listenPrivate(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if ctlErr := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); ctlErr != nil {
			return ctlErr
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
