package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/rtd-project/rtd/internal/unixsock"
)

// validateControl refuses a control listener that would serve in clear, or whoever comes.
func (c Config) validateControl() error {
	t := c.ControlTLS
	switch {
	case c.ControlListen == "" && (t != (TLS{}) || len(c.ControlAdmins) > 0):
		return errors.New("control: tls and admins are of no use without control.listen; name the address too")
	case c.ControlListen == "":
		return nil
	case t.CertFile == "" || t.KeyFile == "" || t.ClientCAFile == "":
		return errors.New("control.listen: takes TLS on both sides; name control.tls.cert_file, key_file and client_ca_file")
	}
	if slices.Contains(c.ControlAdmins, "") {
		return errors.New("control.admins: holds an empty name, which is that of every certificate without one; remove it")
	}
	return checkListen("control.listen", c.ControlListen, false)
}

// readControlTLS makes the configuration of the control listener. There are no tickets: a certificate is looked at each time.
func readControlTLS(c TLS) (*tls.Config, error) {
	cert, err := readKeyPair("control.tls", c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	authorities, err := readAuthorities("control.tls.client_ca_file", c.ClientCAFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities, SessionTicketsDisabled: true,
	}, nil
}

// newControlTLS is newServerTLS for the control listener.
func (d *Daemon) newControlTLS(cfg TLS, before *settings) (*serverTLS, error) {
	if cfg == (TLS{}) {
		return nil, nil
	}
	if before != nil && before.control != nil && before.control.TLS == cfg {
		return before.control, before.control.config.reload()
	}
	config, err := newFromFiles(func() (*tls.Config, error) { return readControlTLS(cfg) }, d.reportServerTLS, cfg.paths()...)
	return &serverTLS{cfg, config}, err
}

// controlCredentials are those of every control connection: the kernel's word on a Unix socket, TLS elsewhere.
type controlCredentials struct {
	credentials.TransportCredentials // of Unix sockets
	secure                           credentials.TransportCredentials
	d                                *Daemon
}

func (d *Daemon) newControlCredentials() *controlCredentials {
	current := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return d.current().control.config.get(time.Now()), nil
	}
	return &controlCredentials{
		TransportCredentials: unixsock.Credentials(),
		secure:               credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: current}),
		d:                    d,
	}
}

// ServerHandshake implements credentials.TransportCredentials. The server has set a deadline, and closes conn after an error.
func (c *controlCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conns := c.d.controlConns
	conns.add(conn)
	shake, closed := c.shake, func() { conns.remove(conn) }
	if _, local := conn.(*net.UnixConn); local {
		shake = c.TransportCredentials.ServerHandshake
	}
	secured, info, err := shake(conn)
	if err != nil {
		closed()
		return nil, nil, err
	}
	if _, remote := info.(credentials.TLSInfo); remote {
		closed = func() { conns.remove(conn); conns.leave() }
	}
	return &controlConn{secured, sync.OnceFunc(closed)}, info, nil
}

// shake finds out who comes over TCP, and says why not in the log.
func (c *controlCredentials) shake(conn net.Conn) (secured net.Conn, info credentials.AuthInfo, err error) {
	conns := c.d.controlConns
	if !c.d.limits.descriptorFree(conn, c.d.limits.reserve(&c.d.current().cfg)/2) { // the rest is for the socket, and for files
		err = errNoDescriptors
	} else {
		if evicted := conns.shake(conn); evicted != nil {
			c.d.reportControlHandshake(evicted, errManyHandshakes)
		}
		secured, info, err = c.secure.ServerHandshake(conn)
		conns.shaken(conn)
	}
	if err == nil {
		err = conns.enter()
	}
	if err != nil {
		c.d.reportControlHandshake(conn, err)
	}
	return secured, info, err
}

// reportControlHandshake gives a refused client one line a minute for all, and each its own at level debug. Who hangs up or falls
// silent has none.
func (d *Daemon) reportControlHandshake(conn net.Conn, err error) {
	const code = "control_handshake_failed"
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, context.Canceled):
		d.log.Trace("control handshake abandoned", "client", remote(conn), "error", err)
	case d.limits.said.due(code, time.Now()):
		d.log.Warn("control handshakes fail (said once a minute; each at level debug)", "client", remote(conn), "error", err)
	default:
		d.log.Debug("control handshake failed", "client", remote(conn), "error", err)
	}
}

// certificateNames are what the list of admins may call a certificate: its URI and DNS names, or where it has neither, its
// common name. The first is what the log calls it.
func certificateNames(cert *x509.Certificate) []string {
	var names []string
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	names = append(names, cert.DNSNames...)
	if len(names) == 0 {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}
