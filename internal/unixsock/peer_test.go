package unixsock

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/credentials"
)

func TestCredentialsCarryThePeer(t *testing.T) {
	path := filepath.Join(sharedDir(t), "s")
	l := mustListen(t, path, Options{})
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	f := func(name string, conn net.Conn, info credentials.AuthInfo, err error, raw net.Conn) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if conn != raw {
			t.Fatalf("%s: the connection was wrapped", name)
		}
		peer, ok := info.(Peer)
		if !ok || peer.AuthType() != "unix" {
			t.Fatalf("%s: got %#v", name, info)
		}
		if int(peer.UID) != os.Geteuid() || int(peer.GID) != os.Getegid() {
			t.Fatalf("%s: got %+v", name, peer)
		}
		if !peer.In(peer.GID) || peer.In(4242424) {
			t.Fatalf("%s: membership of %+v", name, peer)
		}
		groups, err := os.Getgroups()
		if err != nil {
			t.Fatal(err)
		}
		for _, gid := range groups {
			if !peer.In(uint32(gid)) {
				t.Fatalf("%s: group %d is missing from %+v", name, gid, peer)
			}
		}
		if err := credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	conn, info, err := Credentials().ServerHandshake(server)
	f("server", conn, info, err, server)
	if pid := info.(Peer).PID; pid != 0 && pid != os.Getpid() {
		t.Fatalf("pid %d", pid)
	}
	conn, info, err = Credentials().Clone().ClientHandshake(context.Background(), "localhost", client)
	f("client", conn, info, err, client)
}

func TestCredentialsRefuseOtherSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := Credentials().ServerHandshake(conn); !errors.Is(err, ErrNoPeer) {
		t.Fatalf("got %v, want %v", err, ErrNoPeer)
	}
}
