package unixsock

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

func readPeer(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	groups, err := readGroups(fd)
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid), Groups: groups}, nil
}

// readGroups asks for SO_PEERGROUPS, for which x/sys has no call of its own.
func readGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(4 * len(groups))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(groups):
			groups = make([]uint32, size/4) // the kernel said how many there are
		default:
			return nil, errno
		}
	}
}
