package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/internal/unixsock"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Roles of a listener: the names by which a .socket unit passes it (FileDescriptorName=) and under which it is shown.
const (
	roleData    = "data"
	roleAdmin   = "admin"
	roleControl = "control"
)

// listeners are every socket the daemon accepts on. They are opened here and nowhere else, so that what systemd or a
// predecessor passed is used before anything is bound.
type listeners struct {
	data    []net.Listener
	admin   net.Listener
	control net.Listener
	remote  net.Listener // nil: control is not served over TCP
}

// open takes what was inherited and binds the rest: all or none.
func (l *listeners) open(cfg Config) (err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := l.inherit(cfg); err != nil {
		return err
	}
	if len(l.data) == 0 {
		for _, addr := range cfg.Listen {
			ln, err := net.Listen("tcp", addr)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			l.data = append(l.data, ln)
		}
	}
	if l.admin == nil {
		if l.admin, err = net.Listen("tcp", cfg.Admin); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	if l.control == nil {
		control, err := unixsock.Listen(cfg.Socket, cfg.socketOptions())
		if err != nil {
			return err
		}
		l.control = control // not before: a typed nil would be closed
	}
	if cfg.ControlListen != "" {
		if l.remote, err = net.Listen("tcp", cfg.ControlListen); err != nil {
			return fmt.Errorf("control.listen: %w", err)
		}
	}
	return nil
}

// socketOptions says who may open the control socket.
func (c Config) socketOptions() unixsock.Options {
	o := unixsock.DefaultOptions()
	if c.SocketGID != 0 {
		o = unixsock.Options{Mode: 0o660, GID: c.SocketGID}
	}
	if c.SocketMode != 0 {
		o.Mode = c.SocketMode
	}
	return o
}

// inherit sorts the sockets passed to this process by role. An address that the configuration would have refused is
// refused here too.
func (l *listeners) inherit(cfg Config) error {
	passed, err := unixsock.Inherited()
	if err != nil {
		return err
	}
	for _, p := range passed {
		switch p.Name {
		case roleData:
			l.data = append(l.data, p.Listener)
			err = checkListen("inherited data socket", p.Listener.Addr().String(), cfg.open())
		case roleAdmin:
			l.admin = p.Listener
			err = checkListen("inherited admin socket", p.Listener.Addr().String(), true)
		case roleControl:
			l.control = p.Listener
			if at := p.Listener.Addr(); at.Network() != "unix" {
				err = fmt.Errorf("inherited control socket: %s is no Unix socket; give ListenStream= a path, and serve control over TCP with control.listen", at)
			}
		default:
			err = fmt.Errorf("inherited socket %q: FileDescriptorName= must be %s, %s or %s", p.Name, roleData, roleAdmin, roleControl)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check refuses a configuration that would leave what is bound open to other hosts without a key.
func (l *listeners) check(cfg Config) error {
	for _, ln := range l.data {
		if err := checkListen("listen", ln.Addr().String(), cfg.open()); err != nil {
			return err
		}
	}
	return nil
}

func (l *listeners) closeData() {
	for _, ln := range l.data {
		ln.Close()
	}
}

func (l *listeners) close() {
	l.closeData()
	for _, ln := range []net.Listener{l.admin, l.control, l.remote} {
		if ln != nil {
			ln.Close()
		}
	}
}

// messages describes them to a client of the control socket.
func (l *listeners) messages() []*rtdv1.Listener {
	var list []*rtdv1.Listener
	add := func(role string, ln net.Listener) {
		list = append(list, &rtdv1.Listener{Name: role, Network: ln.Addr().Network(), Address: ln.Addr().String()})
	}
	for _, ln := range l.data {
		add(roleData, ln)
	}
	add(roleAdmin, l.admin)
	add(roleControl, l.control)
	if l.remote != nil {
		add(roleControl, l.remote)
	}
	return list
}

// accept serves ln until it is closed. A client has one goroutine up to its 101 and none after.
func (d *Daemon) accept(ctx context.Context, clients *sync.WaitGroup, ln net.Listener) {
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			clients.Go(func() { d.serve(ctx, conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			d.acceptFailed(ctx, err)
		}
	}
}

// acceptPause is how long the accept loop rests when the system has no descriptor or memory for a connection: those
// come back when sessions end, and the listen backlog holds the clients until then.
const acceptPause = 100 * time.Millisecond

// acceptFailed waits out a shortage. Anything else (a client that reset before it was accepted) is that client's own affair.
func (d *Daemon) acceptFailed(ctx context.Context, err error) {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ENOBUFS) && !errors.Is(err, syscall.ENOMEM) {
		return
	}
	d.refusals.add("accept_shortage")
	if d.limits.said.due("accept_shortage", time.Now()) {
		d.log.Error("cannot accept: out of descriptors or memory; raise the limit or lower the load (said once a minute)", "error", err)
	}
	select {
	case <-time.After(acceptPause):
	case <-ctx.Done():
	}
}
