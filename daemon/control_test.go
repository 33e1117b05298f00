package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// control is a client of the rig's control socket.
func (r *rig) control() *client.Client {
	r.t.Helper()
	c, err := client.New(r.listeners.control.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// grpc is the same connection without the hand-written face.
func (r *rig) grpc() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("unix:"+r.listeners.control.Addr().String(), grpc.WithTransportCredentials(unixsock.Credentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// must is for calls that cannot fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func twoModels(c *Config) {
	second := c.Routes[0]
	second.Models, second.Upstream.Model = []string{"other"}, "other"
	c.Routes = append(c.Routes, second)
}

func TestPoolsAreFoundByNameAndKey(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0, twoModels)
	c := r.control()
	pools := must(c.Pools(t.Context()))
	if len(pools) != 2 || pools[0].GetName() != "up/mock" || pools[1].GetName() != "up/other" {
		t.Fatalf("pools %v", pools)
	}
	f := func(name string, want error, text string) {
		t.Helper()
		p, err := c.Pool(t.Context(), name)
		if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %v with %q", name, err, want, text)
		}
		if err == nil && p.GetName() != text {
			t.Errorf("%q is %s, want %s", name, p.GetName(), text)
		}
	}
	f("up/other", nil, "up/other")
	f(pools[0].GetKey(), nil, "up/mock")
	f("", client.ErrInvalid, "there are 2 pools: name one of up/mock, up/other")
	f("nope", client.ErrNotFound, `no pool "nope"; there are: up/mock, up/other`)

	none := &Daemon{pools: pool.NewSet()}
	for _, name := range []string{"", "nope"} {
		if _, err := none.findPool(name); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "no pools yet") {
			t.Errorf("%q without pools: %v", name, err)
		}
	}
}

func TestPoolVerbs(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	r := startRig(t, up, 2)
	c, ctx := r.control(), t.Context()
	r.awaitIdle(2)

	if now, before, err := c.ResizePool(ctx, "", 3); err != nil || before != 2 || now.GetSize() != 3 {
		t.Errorf("resize: %v, was %d: %v", now, before, err)
	}
	r.awaitIdle(3)
	if _, _, err := c.ResizePool(ctx, "", 5000); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("resize above the maximum: %v", err)
	}
	if p := must(c.PausePool(ctx, "")); !p.GetPaused() || p.GetIdle() != 3 {
		t.Errorf("paused: %v", p)
	}
	if p := must(c.DrainPool(ctx, "")); !p.GetPaused() || p.GetIdle() != 0 {
		t.Errorf("drained: %v", p)
	}
	up.Await("drained", func(u *wiretest.Upstream) bool { return u.Open() == 0 })
	if _, result := r.connect(); result != "miss" {
		t.Errorf("a client of a drained pool is a %s", result)
	}
	if p := must(c.ResumePool(ctx, "")); p.GetPaused() {
		t.Errorf("resumed: %v", p)
	}
	r.awaitIdle(3)
	before := up.Dials()
	if p := must(c.RecyclePool(ctx, "")); p.GetRecycling() != 3 {
		t.Errorf("recycling: %v", p)
	}
	r.await("replacement", func() bool { s := r.pool().Stats(); return s.Due == 0 && s.Idle == 3 })
	if n := up.Dials() - before; n != 3 {
		t.Errorf("%d dials to replace 3 sessions", n)
	}
}

// The answers of concurrent resizes form one chain, each with the size of the one before, and its end is what holds: so
// the last one acknowledged wins, whatever the order on the wire.
func TestTwoClientsResizeAtOnce(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	const calls = 40
	var mu sync.Mutex
	next := map[uint32]uint32{} // size → the size that replaced it
	var clients sync.WaitGroup
	for i := range 2 {
		c := r.control()
		clients.Go(func() {
			for n := range calls {
				size := uint32(2 + 2*n + i) // each once
				now, before, err := c.ResizePool(t.Context(), "", size)
				if err != nil || now.GetSize() != size {
					t.Errorf("resize to %d: %v, %v", size, now, err)
					return
				}
				mu.Lock()
				next[before] = size
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	last, steps := uint32(1), 0
	for ; next[last] != 0; steps++ {
		last = next[last]
	}
	if steps != 2*calls {
		t.Fatalf("the chain of %d resizes has %d links", 2*calls, steps)
	}
	if s := r.pool().Stats(); s.Size != int(last) {
		t.Errorf("size %d, the last resize was to %d", s.Size, last)
	}
	r.awaitIdle(int(last))
}

func TestLogLevelChangesWhileRunning(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	c, ctx := r.control(), t.Context()
	if before := must(c.SetLogLevel(ctx, rtdv1.LogLevel_LOG_LEVEL_ERROR)); before != rtdv1.LogLevel_LOG_LEVEL_TRACE {
		t.Errorf("before: %v", before)
	}
	if now := must(c.LogLevel(ctx)); now != rtdv1.LogLevel_LOG_LEVEL_ERROR {
		t.Errorf("now: %v", now)
	}
	if info := must(c.Info(ctx)); info.GetLogLevel() != rtdv1.LogLevel_LOG_LEVEL_ERROR {
		t.Errorf("info: %v", info)
	}
	lines := strings.Count(r.log.String(), "\n")
	must(c.PausePool(ctx, ""))
	if n := strings.Count(r.log.String(), "\n"); n != lines {
		t.Errorf("%d lines at level error", n-lines)
	}
	must(c.SetLogLevel(ctx, rtdv1.LogLevel_LOG_LEVEL_INFO))
	if n := strings.Count(r.log.String(), "log level set"); n != 2 {
		t.Errorf("%d lines for two changes:\n%s", n, r.log.String())
	}
	if _, err := c.SetLogLevel(ctx, 77); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("level 77: %v", err)
	}
	if level := must(c.ConfiguredLogLevel(ctx)); level != rtdv1.LogLevel_LOG_LEVEL_TRACE {
		t.Errorf("configured: %v", level)
	}
	level, before, err := c.ResetLogLevel(ctx)
	if err != nil || level != rtdv1.LogLevel_LOG_LEVEL_TRACE || before != rtdv1.LogLevel_LOG_LEVEL_INFO || must(c.LogLevel(ctx)) != level {
		t.Errorf("reset: %v, before %v: %v", level, before, err)
	}
}

func TestInfoSaysWhatRuns(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 2, func(c *Config) { c.MinWarm = 2 })
	r.awaitIdle(2)
	info := must(r.control().Info(t.Context()))
	if !info.GetReady() || info.GetState() != rtdv1.DaemonState_DAEMON_STATE_SERVING || info.GetWarm() != 2 || info.GetWarmTarget() != 2 ||
		info.GetPools() != 1 || info.GetPid() == 0 || info.GetDrain() != nil {
		t.Errorf("info %v", info)
	}
	if routes := info.GetRoutes(); len(routes) != 1 || routes[0].GetModel() != "mock" || routes[0].GetTarget() != "up/mock" {
		t.Errorf("routes %v", routes)
	}
	var names []string
	for _, l := range info.GetListeners() {
		names = append(names, l.GetName())
		if conn, err := net.Dial(l.GetNetwork(), l.GetAddress()); err != nil {
			t.Errorf("%v: %v", l, err)
		} else {
			conn.Close()
		}
	}
	if !slices.Equal(names, []string{"data", "admin", "control"}) {
		t.Errorf("listeners %v", names)
	}
}

func TestHealthFollowsADrain(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	h := healthpb.NewHealthClient(r.grpc())
	f := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got := must(h.Check(t.Context(), &healthpb.HealthCheckRequest{})); got.GetStatus() != want {
			t.Errorf("health %v, want %v", got.GetStatus(), want)
		}
	}
	f(healthpb.HealthCheckResponse_SERVING)
	for _, err := range r.control().Drain(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	f(healthpb.HealthCheckResponse_NOT_SERVING)
	must(r.control().Resume(t.Context()))
	f(healthpb.HealthCheckResponse_SERVING)
}

func TestReflectionListsTheServices(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	stream := must(reflectionpb.NewServerReflectionClient(r.grpc()).ServerReflectionInfo(t.Context()))
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range must(stream.Recv()).GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"PoolService", "SessionService", "StatsService", "DaemonService"} {
		if !slices.Contains(names, "rtd.v1."+want) {
			t.Errorf("no %s among %v", want, names)
		}
	}
}

// Every kind of stream ends at once with UNAVAILABLE when the daemon stops, and the stop does not wait for their clients.
func TestCaseD6StreamsEndFirst(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	conn, ctx := r.grpc(), t.Context()
	watch := must(healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}))
	reflection := must(reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx))
	if err := reflection.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	stats := must(rtdv1.NewStatsServiceClient(conn).WatchStats(ctx, &rtdv1.WatchStatsRequest{Interval: durationpb.New(time.Hour)}))
	sessions := must(rtdv1.NewSessionServiceClient(conn).WatchSessions(ctx, &rtdv1.WatchSessionsRequest{}))
	must(watch.Recv())
	must(reflection.Recv())
	must(stats.Recv())

	r.stop()
	f := func(name string, recv func() error) {
		t.Helper()
		for {
			switch err := recv(); {
			case err == nil: // what was sent before
			case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), errStopping.Error()):
				return
			default: // the transport was torn down under it
				t.Errorf("%s ended with %v", name, err)
				return
			}
		}
	}
	f("health", func() error { _, err := watch.Recv(); return err })
	f("reflection", func() error { _, err := reflection.Recv(); return err })
	f("stats", func() error { _, err := stats.Recv(); return err })
	f("sessions", func() error { _, err := sessions.Recv(); return err })
}

func TestAPanicInACallIsThatCallsError(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	_, err := r.containUnary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Unary"}, func(context.Context, any) (any, error) { panic("fault") })
	if status.Code(err) != codes.Internal {
		t.Errorf("unary: %v", err)
	}
	err = r.containStream(nil, nil, &grpc.StreamServerInfo{FullMethod: "/x/Stream"}, func(any, grpc.ServerStream) error { panic("fault") })
	if status.Code(err) != codes.Internal {
		t.Errorf("stream: %v", err)
	}
	for _, method := range []string{"/x/Unary", "/x/Stream"} {
		if !strings.Contains(r.log.String(), fmt.Sprintf(`"method":%q`, method)) {
			t.Errorf("no line for %s", method)
		}
	}
}

// Every RPC that there is stands in one of two lists, so that a new one is thought about.
func TestEveryRPCIsForReadersOrAdmins(t *testing.T) {
	changes := []string{
		"/rtd.v1.PoolService/ResizePool", "/rtd.v1.PoolService/PausePool", "/rtd.v1.PoolService/ResumePool",
		"/rtd.v1.PoolService/DrainPool", "/rtd.v1.PoolService/RecyclePool", "/rtd.v1.SessionService/CloseSession",
		"/rtd.v1.DaemonService/DrainDaemon", "/rtd.v1.DaemonService/ResumeDaemon", "/rtd.v1.DaemonService/SetLogLevel",
		"/rtd.v1.DaemonService/ReloadDaemon", "/rtd.v1.DaemonService/MintToken", "/rtd.v1.DaemonService/CollectDiagnostics",
	}
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	for service, info := range r.newControlServer().GetServiceInfo() {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			if readers[name] == slices.Contains(changes, name) {
				t.Errorf("%s is for readers: %t", name, readers[name])
			}
		}
	}
}
