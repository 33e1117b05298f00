package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// callEverything is the part of a process that makes every call there is, with an empty request, and prints what came of each.
func callEverything(socket string) int {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(unixsock.Credentials()))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	for _, service := range []grpc.ServiceDesc{
		rtdv1.PoolService_ServiceDesc, rtdv1.SessionService_ServiceDesc, rtdv1.StatsService_ServiceDesc, rtdv1.DaemonService_ServiceDesc,
		healthpb.Health_ServiceDesc,
	} {
		for _, m := range service.Methods {
			name := "/" + service.ServiceName + "/" + m.MethodName
			err := conn.Invoke(context.Background(), name, &emptypb.Empty{}, &emptypb.Empty{})
			fmt.Println(name, status.Code(err))
		}
		for _, s := range service.Streams {
			name := "/" + service.ServiceName + "/" + s.StreamName
			fmt.Println(name, status.Code(callStream(conn, &s, name)))
		}
	}
	return 0
}

// callStream waits for the first message; the watch of sessions has none to send when there is no session.
func callStream(conn *grpc.ClientConn, desc *grpc.StreamDesc, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, desc, name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(&emptypb.Empty{})
}

// Another user who may open the socket reads everything and changes nothing.
func TestAnotherUserMayReadAndNotChange(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	path := filepath.Join(openDir(t), "s")
	p := startAt(t, path, nil, upstreamArgs(up, "--pool-size", "1")...)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	wiretest.Connect(t, p.listen).ExpectText(wiretest.SessionCreated)

	denied := map[string]bool{}
	calls := exec.Command(os.Args[0])
	calls.Env = append(os.Environ(), "RTD_TEST_MAIN=calls", "RTD_SOCKET="+path)
	out, _ := expect(t, asNobody(t, calls), 0)
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); n++ {
		method, code, _ := strings.Cut(lines.Text(), " ")
		switch code {
		case "PermissionDenied":
			denied[method] = true
		case "OK", "NotFound": // of a session without an id
		default:
			t.Errorf("%s: %s", method, code)
		}
	}
	for _, m := range []string{
		"PoolService/ResizePool", "PoolService/PausePool", "PoolService/ResumePool", "PoolService/DrainPool", "PoolService/RecyclePool",
		"SessionService/CloseSession", "DaemonService/DrainDaemon", "DaemonService/ResumeDaemon", "DaemonService/SetLogLevel", "DaemonService/ReloadDaemon", "DaemonService/MintToken",
		"DaemonService/CollectDiagnostics",
	} {
		if !denied["/rtd.v1."+m] {
			t.Errorf("%s is open to everybody", m)
		}
		delete(denied, "/rtd.v1."+m)
	}
	if len(denied) > 0 || n < 20 {
		t.Errorf("%d calls; reading is denied: %v", n, denied)
	}

	expect(t, asNobody(t, p.rtctl("pool", "list")), 0)
	if _, stderr := expect(t, asNobody(t, p.rtctl("pool", "resize", "9")), 1); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "uid 65534 may only read") {
		t.Errorf("nobody is told %q", stderr)
	}
	if out, _ := expect(t, p.rtctl("pool", "resize", "2"), 0); !strings.Contains(out, "size 2, was 1") {
		t.Errorf("the owner is told %q", out)
	}
}
