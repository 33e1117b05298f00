package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/internal/files"
	"github.com/rtd-project/rtd/internal/wire"
)

// validate reports every fault that can be seen without the files.
func (c TLS) validate() error {
	var errs []error
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("tls: cert_file and key_file go together; name both or neither"))
	}
	if c.CertFile == "" && c.KeyFile == "" && (c.ClientCAFile != "" || c.MinVersion != 0) {
		errs = append(errs, errors.New("tls: client_ca_file and min_version need cert_file and key_file"))
	}
	switch c.MinVersion {
	case 0, tls.VersionTLS12, tls.VersionTLS13:
	default:
		errs = append(errs, fmt.Errorf("tls.min_version: %s is not supported; use 1.2 or 1.3", tls.VersionName(c.MinVersion)))
	}
	return errors.Join(errs...)
}

// paths are the files that c names.
func (c TLS) paths() []string {
	paths := []string{c.CertFile, c.KeyFile}
	if c.ClientCAFile != "" {
		paths = append(paths, c.ClientCAFile)
	}
	return paths
}

// read makes the configuration of a TLS server. Each has session ticket keys of its own, so a client whose certificate an
// authority vouched for that is not listed any more cannot come back with a ticket.
func (c TLS) read() (*tls.Config, error) {
	cert, err := readKeyPair("tls", c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{*cert},
		MinVersion:   orDefault(c.MinVersion, tls.VersionTLS12),
		NextProtos:   []string{"http/1.1"}, // an upgrade exists in no later version
	}
	if c.ClientCAFile != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = readAuthorities("tls.client_ca_file", c.ClientCAFile); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// readKeyPair reads a certificate and its key. key is where the configuration names them.
func readKeyPair(key, certFile, keyFile string) (*tls.Certificate, error) {
	pair, certErr, keyErr := files.KeyPair(certFile, keyFile)
	switch {
	case certErr != nil && keyErr != nil:
		return nil, fmt.Errorf("%s.cert_file: %w; %s.key_file: %w", key, certErr, key, keyErr)
	case certErr != nil:
		return nil, fmt.Errorf("%s.cert_file: %w", key, certErr)
	case keyErr != nil:
		return nil, fmt.Errorf("%s.key_file: %w", key, keyErr)
	}
	return pair, nil
}

func readAuthorities(key, file string) (*x509.CertPool, error) {
	pool, err := files.Authorities(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return pool, nil
}

// serverTLS is what the data listeners encrypt with.
type serverTLS struct {
	TLS
	config *fromFiles[*tls.Config]
}

// newServerTLS reads the files of cfg; nil when it names none. What before read is kept, and with it the tickets of its
// clients, where the files are the same.
func (d *Daemon) newServerTLS(cfg TLS, before *settings) (*serverTLS, error) {
	if cfg == (TLS{}) {
		return nil, nil
	}
	if before != nil && before.tls != nil && before.tls.TLS == cfg {
		return before.tls, before.tls.config.reload()
	}
	config, err := newFromFiles(cfg.read, d.reportServerTLS, cfg.paths()...)
	return &serverTLS{cfg, config}, err
}

func (d *Daemon) reportServerTLS(config *tls.Config, err error) {
	if err == nil {
		d.reportKeyPair(&config.Certificates[0], nil)
		return
	}
	d.reportKeyPair(nil, err)
}

// reportKeyPair logs that files changed.
func (d *Daemon) reportKeyPair(cert *tls.Certificate, err error) {
	if err != nil {
		d.log.Error("certificate files changed and cannot be used; the ones before stay in force", "error", err)
		return
	}
	if warning := files.Untimely(cert.Leaf, time.Now()); warning != "" {
		d.log.Warn("certificate files read again, and "+warning, "subject", cert.Leaf.Subject.String())
		return
	}
	d.log.Info("certificate files read again", "subject", cert.Leaf.Subject.String(), "serial", fmt.Sprintf("%x", cert.Leaf.SerialNumber), "not_after", cert.Leaf.NotAfter)
}

// errHandshake is wrapped by every failure of a client's TLS handshake.
var errHandshake = errors.New("TLS handshake failed")

// encrypt returns what a client is talked to over: conn itself, or TLS over it once the handshake is done. ctx and the
// deadline bound that. After an error conn is the caller's.
func (d *Daemon) encrypt(ctx context.Context, set *settings, conn net.Conn, deadline time.Time) (net.Conn, error) {
	if set.tls == nil {
		return conn, nil
	}
	secure := tls.Server(&wire.Transport{Conn: conn}, set.tls.config.get(time.Now()))
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := secure.Handshake() // not HandshakeContext: that takes a goroutine more
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return secure, nil
}

// maxSubject bounds what the log shows of a client certificate's subject, in bytes.
const maxSubject = 256

// subject names the verified certificate of a client, "" for none.
func subject(conn net.Conn) string {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return ""
	}
	certs := secure.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return ""
	}
	name := certs[0].Subject.String()
	return name[:min(len(name), maxSubject)]
}

// refuseHandshake ends a client whose TLS handshake failed. One that speaks HTTP without TLS is told so. Who hangs up or
// falls silent is not worth a line, and the others are worth one a minute.
func (d *Daemon) refuseHandshake(conn net.Conn, err error) {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record) && record.Conn != nil && isHTTP(record.RecordHeader):
		const code = "tls_required"
		d.refusals.add(code)
		d.log.Debug("request without TLS refused", "client", remote(conn))
		wire.WriteError(conn, http.StatusBadRequest, code, "this port speaks TLS only; use wss:// or https://", nil)
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, context.Canceled):
		d.log.Trace("TLS handshake abandoned", "client", remote(conn), "error", err)
	default:
		const code = "tls_handshake_failed"
		d.refusals.add(code)
		d.log.Debug("TLS handshake failed", "client", remote(conn), "error", err)
		if d.limits.said.due(code, time.Now()) {
			d.log.Warn("TLS handshakes fail (said once a minute; each at level debug)", "client", remote(conn), "error", err)
		}
	}
}

// isHTTP reports whether what came in place of a TLS record is the beginning of an HTTP request.
func isHTTP(record [5]byte) bool {
	switch string(record[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "CONNE":
		return true
	}
	return false
}

// upstreamTLS is what a wss upstream is dialled with.
func (d *Daemon) upstreamTLS(u Upstream) (*tls.Config, error) {
	config := &tls.Config{RootCAs: u.RootCAs, ServerName: u.ServerName, MinVersion: tls.VersionTLS12}
	if u.ServerName == "" && u.BaseURL != nil {
		config.ServerName = u.BaseURL.Hostname() // or each session would keep a copy of config
	}
	if u.CertFile == "" {
		return config, nil
	}
	read := func() (*tls.Certificate, error) {
		return readKeyPair("upstream "+u.Name+": tls", u.CertFile, u.KeyFile)
	}
	cert, err := newFromFiles(read, d.reportKeyPair, u.CertFile, u.KeyFile)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.get(time.Now()), nil }
	return config, err
}
