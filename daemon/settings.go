package daemon

import "github.com/rtd-project/rtd/internal/auth"

// settings is what a reload replaces, as one immutable value. A client reads it once, when it is accepted; what it opens
// goes on under it.
type settings struct {
	cfg    Config // with defaults
	routes *routes
	auth   *auth.Auth
}

// newSettings makes cfg, which has its defaults and is valid, ready to serve. It starts nothing.
func (d *Daemon) newSettings(cfg Config) (*settings, error) {
	s := &settings{cfg: cfg, routes: newRoutes(cfg.Routes, d.engine, d.redact.String, &d.targets, d.poolLog)}
	var err error
	if before := d.current(); before != nil {
		s.auth, err = before.auth.With(cfg.Auth)
	} else {
		s.auth, err = auth.New(cfg.Auth)
	}
	if err != nil {
		return nil, err
	}
	s.routes.unused = s.auth.PassesAll()
	return s, s.routes.check()
}

// current is the settings in force.
func (d *Daemon) current() *settings { return d.settings.Load() }
