package daemon

import (
	"errors"

	"github.com/rtd-project/rtd/internal/auth"
)

// settings is what a reload replaces, as one immutable value. A client is held to the one in force when its request has come; what it opens
// goes on under it.
type settings struct {
	cfg     Config // with defaults
	routes  *routes
	auth    *auth.Auth
	tls     *serverTLS // nil: clients are served without
	control *serverTLS // nil: control is not served over TCP
}

// newSettings makes cfg, which has its defaults and is valid, ready to serve. It starts nothing.
func (d *Daemon) newSettings(cfg Config) (*settings, error) {
	s, before := &settings{cfg: cfg}, d.current()
	var routesErr, authErr, tlsErr error
	s.routes, routesErr = d.newRoutes(cfg)
	if before != nil {
		s.auth, authErr = before.auth.With(cfg.Auth)
	} else {
		s.auth, authErr = auth.New(cfg.Auth)
	}
	s.tls, tlsErr = d.newServerTLS(cfg.TLS, before)
	var controlErr error
	s.control, controlErr = d.newControlTLS(cfg.ControlTLS, before)
	if err := errors.Join(routesErr, authErr, tlsErr, controlErr); err != nil {
		return nil, err
	}
	s.routes.unused = s.auth.PassesAll()
	return s, s.routes.check(d.redact.Add)
}

// current is the settings in force.
func (d *Daemon) current() *settings { return d.settings.Load() }
