package wire

import "net"

// Transport is the net.Conn under the *tls.Conn of a dialled upstream. Once the handshake is over, and while no other
// goroutine uses the connection, its owner may replace Conn: the TLS state stays and only the descriptor under it
// changes.
type Transport struct{ net.Conn }
