package relay

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// setCork holds back segments that are not full, so that the FIN shares one with the data before it.
func setCork(t testing.TB, conn net.Conn, on bool) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	v := 0
	if on {
		v = 1
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, v) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}
