//go:build !linux

package wiretest

import (
	"net"
	"testing"
)

// cork does nothing: the FIN may come in a segment of its own.
func cork(testing.TB, net.Conn) {}
