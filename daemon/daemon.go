package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/rtd-project/rtd/internal/redact"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/trace"
	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/pool"
)

// Daemon is one running rtd. New makes it, Run runs it once.
type Daemon struct {
	settings   atomic.Pointer[settings] // read with current
	log        hclog.Logger
	logTail    *logTail // its last lines
	redact     *redact.Redactor
	engine     *relay.Engine
	epoch      time.Time // of the relay's clock
	limits     *limits
	traces     *trace.Tracer
	own        ownPools
	reloading  sync.Mutex // one reload at a time
	targets    sync.Map   // pool key → served
	pools      *pool.Set
	poolLog    *poolLog
	sessions   *registry
	ended      *endQueue
	stats      stats.Set
	history    history
	memory     memoryMeter
	accepted   atomic.Uint64 // sessions answered with 101
	finished   atomic.Uint64 // of those, ended
	endedAlone atomic.Uint64 // of those, without having been told to
	responses  atomic.Uint64 // finished responses
	refusals   counts
	started    time.Time
	blind      atomic.Bool // the process is not looked at: for the benchmark that shows what statistics cost

	listeners    listeners
	controlConns *controlConns
	ready        chan struct{} // closed once every listener is bound
	drains       drainer
	watchers     watchers
	health       *health.Server
	background   sync.WaitGroup // what control calls left running
	hurry        chan struct{}  // a stop that must not wait for sessions
	hurryOnce    sync.Once
	stopping     chan struct{} // closed when streams must end
}

// New checks cfg and prepares a daemon. It opens no socket.
func New(cfg Config) (*Daemon, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Daemon{
		redact:   redact.New(cfg.secrets()...),
		sessions: newRegistry(),
		ended:    newEndQueue(),
		pools:    pool.NewSet(),
		health:   health.NewServer(),
		ready:    make(chan struct{}),
		hurry:    make(chan struct{}),
		stopping: make(chan struct{}),
		limits:   newLimits(),
		own:      ownPools{idle: ownPoolIdle},

		controlConns: newControlConns(),
	}
	d.logTail = newLogTail(logTailSize)
	d.log = newLogger(cfg.Log, cfg.LogLevel, cfg.LogFormat, d.redact, d.logTail)
	d.poolLog = newPoolLog(d.log)
	d.traces = d.newTracer()
	d.epoch = time.Now()
	var err error
	d.engine, err = relay.New(relay.Config{
		Pollers:      cfg.Pollers,
		WriteStall:   cfg.WriteStall,
		CloseTimeout: cfg.CloseTimeout,
		MaxMessage:   cfg.MaxMessage,
		MaxFragments: uint16(cfg.MaxFragments),
		Redact:       d.redact.Bytes,
		Goroutines:   cfg.goroutines,
	})
	if err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	set, err := d.newSettings(cfg)
	if err != nil {
		d.engine.Close()
		return nil, err
	}
	d.settings.Store(set)
	d.warn(cfg)
	d.configureTraces(cfg)
	return d, nil
}

// warn logs what is doubtful in a configuration that is in force.
func (d *Daemon) warn(cfg Config) {
	for _, warning := range cfg.Warnings {
		d.log.Warn("configuration in force with a doubt", "warning", warning)
	}
}

// secrets lists what must never be seen in any output.
func (c Config) secrets() []string {
	secrets := []string{string(c.Auth.Tokens.Secret)}
	for _, r := range c.Routes {
		secrets = append(secrets, r.Upstream.Credential)
	}
	return append(secrets, c.Traces.secrets()...)
}

// Ready is closed once every listener is bound and clients are served.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// Addrs are the bound data addresses, in the order of Config.Listen. Call it after Ready.
func (d *Daemon) Addrs() []net.Addr {
	var addrs []net.Addr
	for _, ln := range d.listeners.data {
		addrs = append(addrs, ln.Addr())
	}
	return addrs
}

// Scheme is what the URL of a data address begins with: wss where they speak TLS, else ws.
func (d *Daemon) Scheme() string {
	if d.current().cfg.TLS.CertFile != "" {
		return "wss"
	}
	return "ws"
}

// AdminAddr is the bound admin address. Call it after Ready.
func (d *Daemon) AdminAddr() net.Addr { return d.listeners.admin.Addr() }

// Run binds the listeners, warms the pools and serves until ctx ends; then it drains and stops (see drain.go). It
// returns nil after an orderly stop, also when sessions had to be closed by force.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.engine.Close()
	if err := d.listeners.open(d.current().cfg); err != nil {
		return err
	}
	defer d.listeners.close()
	d.started = time.Now()
	d.memory.setBaseline()
	if err := d.current().routes.warmPools(d.pools); err != nil {
		d.pools.Close()
		return err
	}

	serving, stopServing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopServing(nil)
	var clients sync.WaitGroup // accept loops and handshakes
	for _, ln := range d.listeners.data {
		clients.Go(func() { d.accept(serving, &clients, ln) })
	}
	var services sync.WaitGroup // everything that ends after the last session
	var reports sync.WaitGroup  // what is told of sessions and pools, to be heard before the services end
	admin, control := d.newAdminServer(), d.newControlServer()
	services.Go(func() { d.report("admin listener", ignoreClosed(admin.Serve(d.listeners.admin))) })
	services.Go(func() { d.report("control socket", control.Serve(d.listeners.control)) })
	if remote := d.listeners.remote; remote != nil {
		services.Go(func() { d.report("control listener", control.Serve(remote)) })
	}
	noMoreEnds := make(chan struct{})
	reports.Go(func() { d.ended.run(noMoreEnds) })
	reports.Go(func() { d.poolLog.run(noMoreEnds) })
	services.Go(func() { d.observe(noMoreEnds) })
	services.Go(d.traces.Run)
	services.Go(func() { d.sweep(noMoreEnds) })
	services.Go(func() { d.keepManagerInformed(d.stopping) })
	d.log.Info("ready", d.readyFields()...)
	d.notify(unixsock.Ready)
	close(d.ready)

	<-ctx.Done()
	d.notify(unixsock.Stopping)
	stopBy := time.Now().Add(d.current().cfg.Grace)
	forced, closeBy := d.drainForStop()
	d.listeners.closeData()
	stopServing(errDraining) // the answer to those that wait for a session
	clients.Wait()
	d.pools.Close()
	d.engine.Shutdown(time.Until(closeBy))
	close(noMoreEnds)
	reports.Wait()
	services.Go(func() { d.stopTraces(stopBy) })
	d.stopServices(admin, control)
	services.Wait()
	d.background.Wait()
	d.log.Info("stopped", "forced", forced)
	return nil
}

// report logs the end of a service that should have gone on.
func (d *Daemon) report(service string, err error) {
	if err != nil {
		d.log.Error(service+" failed", "error", err)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// readyFields say where the daemon can be reached.
func (d *Daemon) readyFields() []any {
	f := []any{"pid", os.Getpid(), "models", d.current().routes.models()}
	for _, a := range d.Addrs() {
		f = append(f, "listen", a.String())
	}
	if d.current().tls != nil {
		f = append(f, "tls", true)
	}
	if remote := d.listeners.remote; remote != nil {
		f = append(f, "control", remote.Addr().String())
	}
	return append(f, "admin", d.listeners.admin.Addr().String(), "socket", d.listeners.control.Addr().String())
}

// servicesTimeout bounds the end of HTTP and gRPC requests in flight.
const servicesTimeout = time.Second

// stopServices ends the control socket, its TCP listener and the admin listener. Streams are told first: a graceful stop waits for them.
func (d *Daemon) stopServices(admin *http.Server, control *grpc.Server) {
	close(d.stopping)
	d.health.Shutdown()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		control.GracefulStop()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), servicesTimeout)
	defer cancel()
	if err := admin.Shutdown(ctx); err != nil {
		admin.Close()
	}
	select {
	case <-graceful:
	case <-ctx.Done():
		d.controlConns.cutAll()
		control.Stop()
		<-graceful
	}
}
