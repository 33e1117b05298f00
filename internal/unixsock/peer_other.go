//go:build !linux

package unixsock

import "golang.org/x/sys/unix"

func readPeer(fd int) (Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	groups := cred.Groups[:max(0, min(int(cred.Ngroups), len(cred.Groups)))]
	peer := Peer{UID: cred.Uid, Groups: append([]uint32(nil), groups...)}
	if len(groups) > 0 {
		peer.GID = groups[0]
	}
	return peer, nil
}
