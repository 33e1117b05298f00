package daemon

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Bounds of what one peer of the control socket may ask of it. Requests are a name and a number or two.
const (
	controlHandshakeTimeout = 5 * time.Second
	controlMaxRequest       = 64 << 10
	controlMaxStreams       = 128
)

// newControlServer serves the control socket, and its TCP listener.
func (d *Daemon) newControlServer() *grpc.Server {
	a := newAdmins(d.current().cfg, d.listeners.control.Addr().String())
	a.names, a.log = func() []string { return d.current().cfg.ControlAdmins }, d.log
	s := grpc.NewServer(
		grpc.Creds(d.newControlCredentials()),
		grpc.ConnectionTimeout(controlHandshakeTimeout),
		grpc.MaxRecvMsgSize(controlMaxRequest),
		grpc.MaxConcurrentStreams(controlMaxStreams),
		grpc.ChainUnaryInterceptor(a.unary, d.containUnary),
		grpc.ChainStreamInterceptor(a.stream, d.containStream, d.endWithDaemon),
	)
	rtdv1.RegisterPoolServiceServer(s, &poolService{d: d})
	rtdv1.RegisterSessionServiceServer(s, &sessionService{d: d})
	rtdv1.RegisterStatsServiceServer(s, &statsService{d: d})
	rtdv1.RegisterDaemonServiceServer(s, &daemonService{d: d})
	healthpb.RegisterHealthServer(s, d.health)
	reflection.Register(s)
	return s
}

// containUnary makes a fault of ours in one call that call's error.
func (d *Daemon) containUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer d.containCall(info.FullMethod, &err)
	return next(ctx, req)
}

func (d *Daemon) containStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer d.containCall(info.FullMethod, &err)
	return next(srv, ss)
}

func (d *Daemon) containCall(method string, err *error) {
	if fault := recover(); fault != nil {
		d.log.Error("panic in a control call", "method", method, "panic", fault, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the daemon failed; see its log")
	}
}

// endWithDaemon ends a stream when the daemon stops. A graceful stop waits for streams, and those of other packages (health,
// reflection) end with their client only.
func (d *Daemon) endWithDaemon(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-d.stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	err := next(srv, &endingStream{ss, ctx, info.IsClientStream})
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return streamEnd(ctx)
	}
	return err
}

// streamEnd is the status of a stream whose context has ended.
func streamEnd(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errStopping) {
		return status.Error(codes.Unavailable, errStopping.Error())
	}
	return nil // the client left
}

// endingStream is a stream whose context also ends with the daemon, and with it the wait for a further request.
type endingStream struct {
	grpc.ServerStream
	ctx     context.Context
	waiting bool // the client may send more than one request
}

// Context implements grpc.ServerStream.
func (s *endingStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream. When it gives up, the inner call ends as soon as the handler has returned.
func (s *endingStream) RecvMsg(m any) error {
	if !s.waiting {
		return s.ServerStream.RecvMsg(m)
	}
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
