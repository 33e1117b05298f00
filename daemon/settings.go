package daemon

import "crypto/sha256"

// settings is what a reload replaces, as one immutable value. A client reads it once, when it is accepted; what it opens
// goes on under it.
type settings struct {
	cfg        Config // with defaults
	routes     *routes
	clientKeys [][sha256.Size]byte
}

// newSettings makes cfg, which has its defaults and is valid, ready to serve. It starts nothing.
func (d *Daemon) newSettings(cfg Config) (*settings, error) {
	s := &settings{cfg: cfg, routes: newRoutes(cfg.Routes, d.engine, d.redact.String, &d.targets, d.poolLog)}
	for _, k := range cfg.ClientKeys {
		s.clientKeys = append(s.clientKeys, sha256.Sum256([]byte(k)))
	}
	return s, s.routes.check()
}

// current is the settings in force.
func (d *Daemon) current() *settings { return d.settings.Load() }
