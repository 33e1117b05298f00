package wiretest

import (
	"net"
	"syscall"
	"testing"
)

// cork holds back what is written until the connection is half-closed.
func cork(t testing.TB, conn net.Conn) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatalf("wiretest: %v", err)
	}
	err = raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1)
	})
	if err != nil {
		t.Fatalf("wiretest: TCP_CORK: %v", err)
	}
}
