package client_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// fake is a daemon with one pool and five sessions. fail, if set, is the answer to
// every call.
type fake struct {
	rtdv1.UnimplementedPoolServiceServer
	rtdv1.UnimplementedStatsServiceServer
	rtdv1.UnimplementedSessionServiceServer
	rtdv1.UnimplementedDaemonServiceServer

	mu        sync.Mutex
	fail      error
	pool      *rtdv1.Pool
	info      *rtdv1.DaemonInfo // nil: it does not know the call
	watchers  int
	authority []string

	dir, socket string
	server      *grpc.Server
	done        chan struct{}
}

func startFake() (*fake, error) {
	dir, err := os.MkdirTemp("/tmp", "client")
	if err != nil {
		return nil, err
	}
	f := &fake{
		dir: dir, socket: filepath.Join(dir, "rtd.sock"), done: make(chan struct{}),
		pool: &rtdv1.Pool{Key: "a1", Name: "openai/gpt-realtime", Size: 8, MaxSize: 4096, Idle: 8, Hits: 40},
	}
	l, err := unixsock.Listen(f.socket, unixsock.Options{})
	if err != nil {
		return nil, err
	}
	f.serve(l)
	return f, nil
}

func (f *fake) serve(l net.Listener, options ...grpc.ServerOption) {
	f.server = grpc.NewServer(append([]grpc.ServerOption{grpc.Creds(unixsock.Credentials()), grpc.UnaryInterceptor(f.intercept)}, options...)...)
	rtdv1.RegisterPoolServiceServer(f.server, f)
	rtdv1.RegisterStatsServiceServer(f.server, f)
	rtdv1.RegisterSessionServiceServer(f.server, f)
	rtdv1.RegisterDaemonServiceServer(f.server, f)
	go func() {
		defer close(f.done)
		_ = f.server.Serve(l)
	}()
}

func (f *fake) close() {
	f.server.Stop()
	<-f.done
	if f.dir != "" {
		os.RemoveAll(f.dir)
	}
}

func (f *fake) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	fail := f.fail
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		f.authority = md.Get(":authority")
	}
	f.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return handler(ctx, req)
}

func (f *fake) ListPools(context.Context, *rtdv1.ListPoolsRequest) (*rtdv1.ListPoolsResponse, error) {
	return &rtdv1.ListPoolsResponse{Pools: []*rtdv1.Pool{f.pool}}, nil
}

func (f *fake) GetInfo(context.Context, *rtdv1.GetInfoRequest) (*rtdv1.GetInfoResponse, error) {
	if f.info == nil {
		return nil, status.Error(codes.Unimplemented, "unknown method GetInfo for service rtd.v1.DaemonService")
	}
	return &rtdv1.GetInfoResponse{Info: f.info}, nil
}

func (f *fake) ResizePool(_ context.Context, req *rtdv1.ResizePoolRequest) (*rtdv1.ResizePoolResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.pool.Size
	f.pool.Size = req.GetSize()
	return &rtdv1.ResizePoolResponse{Pool: f.pool, PreviousSize: before}, nil
}

func (f *fake) WatchStats(_ *rtdv1.WatchStatsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchStatsResponse]) error {
	f.watching(1)
	defer f.watching(-1)
	for i := range 3 {
		s := &rtdv1.Stats{Time: timestamppb.New(time.Unix(int64(i), 0)), Sessions: &rtdv1.SessionTotals{Open: uint32(i)}}
		if err := stream.Send(&rtdv1.WatchStatsResponse{Stats: s}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return f.fail
}

func (f *fake) watching(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers += n
}

var sessionIDs = []string{"s-1", "s-2", "s-3", "s-4", "s-5"}

// ListSessions gives pages of two.
func (f *fake) ListSessions(_ context.Context, req *rtdv1.ListSessionsRequest) (*rtdv1.ListSessionsResponse, error) {
	res := &rtdv1.ListSessionsResponse{}
	for _, id := range sessionIDs {
		if id <= req.GetPageToken() {
			continue
		}
		if len(res.Sessions) == 2 {
			res.NextPageToken = res.Sessions[1].GetId()
			break
		}
		res.Sessions = append(res.Sessions, &rtdv1.Session{Id: id})
	}
	return res, nil
}

func (f *fake) DrainDaemon(req *rtdv1.DrainDaemonRequest, stream grpc.ServerStreamingServer[rtdv1.DrainDaemonResponse]) error {
	for _, step := range []*rtdv1.DrainDaemonResponse{
		{State: rtdv1.DaemonState_DAEMON_STATE_DRAINING, Drain: &rtdv1.Drain{Remaining: 2, Left: req.GetTimeout()}},
		{State: rtdv1.DaemonState_DAEMON_STATE_DRAINED, Drain: &rtdv1.Drain{Ended: 1, Forced: 1, Elapsed: durationpb.New(3 * time.Second)}},
	} {
		if err := stream.Send(step); err != nil {
			return err
		}
	}
	return nil
}
