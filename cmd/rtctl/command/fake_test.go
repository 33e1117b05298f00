package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	if os.Getenv("RTCTL_TEST_RUN") != "" { // this binary stands in for rtctl
		os.Exit(Execute(os.Args[1:], os.Stdout, os.Stderr))
	}
	readBuild = func() versionDocument { return versionDocument{"v0.1.0", "", "go1.26.0"} }
	os.Exit(m.Run())
}

// fake is a daemon as far as rtctl can tell. What it answers is plain data.
type fake struct {
	rtdv1.UnimplementedPoolServiceServer
	rtdv1.UnimplementedStatsServiceServer
	rtdv1.UnimplementedDaemonServiceServer
	rtdv1.UnimplementedSessionServiceServer

	mu       sync.Mutex
	pools    []*rtdv1.Pool
	stats    *rtdv1.Stats
	info     *rtdv1.DaemonInfo
	sessions []*rtdv1.Session
	events   []*rtdv1.WatchSessionsResponse // what WatchSessions sends after them
	drain    []*rtdv1.DrainDaemonResponse   // what DrainDaemon sends
	grace    time.Duration                  // of the last DrainDaemon; -1: unset
	stuck    bool                           // nothing that takes time gets done
	faults   string                         // why ReloadDaemon refuses; "": it does not
	watchers int

	poolServer rtdv1.PoolServiceServer // nil: f
	name       string                  // of the socket, "": rtd.sock
	socket     string
	server     *grpc.Server
}

// serve puts f on a Unix socket of its own.
func serve(t *testing.T, f *fake) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rtctl") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if f.name == "" {
		f.name = "rtd.sock"
	}
	f.socket = filepath.Join(dir, f.name)
	l, err := unixsock.Listen(f.socket, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.server = grpc.NewServer(grpc.Creds(unixsock.Credentials()))
	if f.poolServer == nil {
		f.poolServer = f
	}
	rtdv1.RegisterPoolServiceServer(f.server, f.poolServer)
	rtdv1.RegisterStatsServiceServer(f.server, f)
	rtdv1.RegisterDaemonServiceServer(f.server, f)
	rtdv1.RegisterSessionServiceServer(f.server, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.server.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		f.server.Stop()
		<-done
	})
	return f
}

func (f *fake) snapshot() *rtdv1.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := proto.CloneOf(f.stats)
	s.Pools = f.pools
	return s
}

func (f *fake) GetStats(context.Context, *rtdv1.GetStatsRequest) (*rtdv1.GetStatsResponse, error) {
	return &rtdv1.GetStatsResponse{Stats: f.snapshot()}, nil
}

func (f *fake) WatchStats(req *rtdv1.WatchStatsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchStatsResponse]) error {
	f.watching(1)
	defer f.watching(-1)
	s := f.snapshot()
	for {
		if err := stream.Send(&rtdv1.WatchStatsResponse{Stats: s}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(req.GetInterval().AsDuration()):
		}
		s.Time = timestamppb.New(s.GetTime().AsTime().Add(req.GetInterval().AsDuration()))
	}
}

func (f *fake) watching(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers += n
}

func (f *fake) GetInfo(context.Context, *rtdv1.GetInfoRequest) (*rtdv1.GetInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &rtdv1.GetInfoResponse{Info: f.info}, nil
}

func (f *fake) DrainDaemon(req *rtdv1.DrainDaemonRequest, stream grpc.ServerStreamingServer[rtdv1.DrainDaemonResponse]) error {
	f.mu.Lock()
	f.grace = -1
	if req.GetTimeout() != nil {
		f.grace = req.GetTimeout().AsDuration()
	}
	steps, stuck := f.drain, f.stuck
	f.mu.Unlock()
	for _, step := range steps {
		if err := stream.Send(step); err != nil {
			return err
		}
	}
	if stuck {
		<-stream.Context().Done()
	}
	return nil
}

func (f *fake) ResumeDaemon(context.Context, *rtdv1.ResumeDaemonRequest) (*rtdv1.ResumeDaemonResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &rtdv1.ResumeDaemonResponse{Info: f.info}, nil
}

func (f *fake) MintToken(_ context.Context, req *rtdv1.MintTokenRequest) (*rtdv1.MintTokenResponse, error) {
	if req.GetKey() == "nobody" {
		return nil, status.Error(codes.InvalidArgument, `client key "nobody": there is no such key; there are: [web]`)
	}
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(req.GetTtl().AsDuration())
	return &rtdv1.MintTokenResponse{Value: "ek_rtd_" + req.GetModel(), ExpiresAt: timestamppb.New(expires)}, nil
}

// ListSessions gives a page of two at most.
func (f *fake) ListSessions(_ context.Context, req *rtdv1.ListSessionsRequest) (*rtdv1.ListSessionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &rtdv1.ListSessionsResponse{}
	for _, s := range f.sessions {
		if s.GetId() <= req.GetPageToken() || (req.GetPool() != "" && req.GetPool() != s.GetTarget()) {
			continue
		}
		if len(res.Sessions) == 2 {
			res.NextPageToken = res.Sessions[1].GetId()
			break
		}
		res.Sessions = append(res.Sessions, s)
	}
	return res, nil
}

func (f *fake) GetSession(_ context.Context, req *rtdv1.GetSessionRequest) (*rtdv1.GetSessionResponse, error) {
	s, err := f.session(req.GetId())
	return &rtdv1.GetSessionResponse{Session: s}, err
}

func (f *fake) CloseSession(_ context.Context, req *rtdv1.CloseSessionRequest) (*rtdv1.CloseSessionResponse, error) {
	s, err := f.session(req.GetId())
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stuck {
		f.sessions = slices.DeleteFunc(f.sessions, func(s *rtdv1.Session) bool { return s.GetId() == req.GetId() })
	}
	s.State = rtdv1.SessionState_SESSION_STATE_CLOSING
	return &rtdv1.CloseSessionResponse{Session: s}, nil
}

func (f *fake) session(id string) (*rtdv1.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.GetId() == id {
			return proto.CloneOf(s), nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "no session %q: it may have ended", id)
}
