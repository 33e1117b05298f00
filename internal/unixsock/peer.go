package unixsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"google.golang.org/grpc/credentials"
)

// ErrNoPeer means that a connection has no credentials to read, because it is no Unix
// socket or its peer is gone.
var ErrNoPeer = errors.New("no peer credentials")

// Peer is the process at the other end, as the kernel recorded it when the connection
// was made. It is the credentials.AuthInfo of every connection under Credentials.
type Peer struct {
	credentials.CommonAuthInfo

	UID, GID uint32
	PID      int      // 0 where the system does not tell
	Groups   []uint32 // supplementary groups, GID not always among them
}

// AuthType implements credentials.AuthInfo.
func (Peer) AuthType() string { return "unix" }

// In says whether the peer belongs to a group, by its main group or another.
func (p Peer) In(gid uint32) bool { return p.GID == gid || slices.Contains(p.Groups, gid) }

// PeerOf reads the credentials of conn's peer. Errors wrap ErrNoPeer.
func PeerOf(conn net.Conn) (Peer, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("%w: %s is no Unix socket", ErrNoPeer, conn.RemoteAddr().Network())
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	return peerOf(raw)
}

func peerOf(raw syscall.RawConn) (peer Peer, err error) {
	if ctlErr := raw.Control(func(fd uintptr) { peer, err = readPeer(int(fd)) }); ctlErr != nil {
		err = ctlErr
	}
	if err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	// What the kernel passes between two processes no third one reads or alters.
	peer.SecurityLevel = credentials.PrivacyAndIntegrity
	return peer, nil
}

// Credentials returns gRPC transport credentials for Unix sockets, for servers and
// clients alike. They refuse every other connection.
func Credentials() credentials.TransportCredentials { return transport{} }

type transport struct{}

func (transport) handshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	peer, err := PeerOf(conn)
	if err != nil {
		return nil, nil, err
	}
	return conn, peer, nil
}

func (t transport) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return t.handshake(conn)
}

func (t transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return t.handshake(conn)
}

func (transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

func (t transport) Clone() credentials.TransportCredentials { return t }

func (transport) OverrideServerName(string) error { return nil }
