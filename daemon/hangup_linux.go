package daemon

import "golang.org/x/sys/unix"

// hungUp reports whether the peer of a socket has sent its last byte, whatever is still unread.
func hungUp(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}
