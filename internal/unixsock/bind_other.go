//go:build !linux

package unixsock

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

var umaskMu sync.Mutex

// listenPrivate binds a socket that only its owner can open. Where fchmod(2) does
// not work on sockets only the umask can do that; other files created in this
// instant come out narrower than asked, never wider.
func listenPrivate(path string) (*net.UnixListener, error) {
	umaskMu.Lock()
	defer umaskMu.Unlock()
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
}
