package daemon

import (
	"context"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// readers are the RPCs of everybody who may open the socket. All others are for admins: a new RPC is closed until it is
// listed here.
var readers = map[string]bool{
	rtdv1.PoolService_ListPools_FullMethodName:        true,
	rtdv1.PoolService_GetPool_FullMethodName:          true,
	rtdv1.SessionService_ListSessions_FullMethodName:  true,
	rtdv1.SessionService_GetSession_FullMethodName:    true,
	rtdv1.SessionService_WatchSessions_FullMethodName: true,
	rtdv1.StatsService_GetStats_FullMethodName:        true,
	rtdv1.StatsService_WatchStats_FullMethodName:      true,
	rtdv1.DaemonService_GetInfo_FullMethodName:        true,
	rtdv1.DaemonService_GetLogLevel_FullMethodName:    true,
	rtdv1.DaemonService_GetConfig_FullMethodName:      true,
	"/grpc.health.v1.Health/Check":                    true,
	"/grpc.health.v1.Health/List":                     true,
	"/grpc.health.v1.Health/Watch":                    true,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// admins decides who may change things: by the kernel's word for the peer of the control socket, by the certificate of who
// comes over TCP. Each change has a line in the log that says whose it was.
type admins struct {
	uids  []uint32
	gids  []uint32
	names func() []string // of certificates
	log   hclog.Logger
}

// newAdmins are the configured ones; by default root, the daemon's own user and the group of the socket that is listened on.
func newAdmins(cfg Config, socket string) admins {
	a := admins{uids: cfg.AdminUIDs, gids: cfg.AdminGIDs}
	if len(a.uids) == 0 {
		a.uids = []uint32{0, uint32(os.Geteuid())}
	}
	if len(a.gids) == 0 {
		a.gids = socketGroup(socket)
	}
	return a
}

// socketGroup is the group that the mode of a socket lets in; none for a private socket.
func socketGroup(path string) []uint32 {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o060 != 0o060 {
		return nil
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return []uint32{sys.Gid}
	}
	return nil
}

// check lets a call through or says who may make it.
func (a admins) check(ctx context.Context, method string) error {
	if readers[method] {
		return nil
	}
	var info credentials.AuthInfo
	if p, ok := peer.FromContext(ctx); ok {
		info = p.AuthInfo
	}
	switch who := info.(type) {
	case unixsock.Peer:
		if !slices.Contains(a.uids, who.UID) && !slices.ContainsFunc(a.gids, who.In) {
			return status.Errorf(codes.PermissionDenied, "uid %d may only read; ask for membership in the admin uids %v or gids %v", who.UID, once(a.uids), once(a.gids))
		}
		a.log.Info("control call", "call", path.Base(method), "uid", who.UID, "pid", who.PID)
	case credentials.TLSInfo:
		names := certificateNames(who.State.PeerCertificates[0])
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(a.names(), name) }) {
			return status.Errorf(codes.PermissionDenied, "certificate %q may only read; ask for its name in control.admins", names[0])
		}
		p, _ := peer.FromContext(ctx)
		a.log.Info("control call", "call", path.Base(method), "certificate", names[0], "client", p.Addr.String())
	default:
		return status.Error(codes.PermissionDenied, "nobody knows who you are")
	}
	return nil
}

// once is a list of ids for people, in order and each once.
func once(ids []uint32) []uint32 { return slices.Compact(slices.Sorted(slices.Values(ids))) }

func (a admins) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := a.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (a admins) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := a.check(ss.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}
