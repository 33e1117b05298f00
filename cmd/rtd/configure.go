package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/config"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/pool"
)

// configuration turns what people write into what the daemon is told. It reads the secrets and authorities that are named
// there, which Load has found good: what is wrong with them now, and gathered here, has become so since.
type configuration struct {
	*config.Config
	faults config.Faults
	files  sums // read on the way, as they were before
}

// configure returns the daemon's configuration and the files that decide it, as they were. Its error is config.Faults.
func configure(c *config.Config) (daemon.Config, sums, error) {
	b := &configuration{Config: c, files: sums{}}
	cfg := daemon.Config{
		Listen:            c.Listen,
		Admin:             c.Admin,
		Socket:            c.Control.Socket,
		SocketMode:        c.Control.Mode,
		SocketGID:         b.group(),
		AdminUIDs:         c.Control.AdminUIDs,
		AdminGIDs:         c.Control.AdminGIDs,
		ControlListen:     c.Control.Listen,
		ControlTLS:        daemon.TLS{CertFile: c.Control.TLS.CertFile, KeyFile: c.Control.TLS.KeyFile, ClientCAFile: c.Control.TLS.ClientCAFile},
		ControlAdmins:     c.Control.Admins,
		Presets:           b.presets(),
		Routes:            b.routes(),
		Auth:              b.auth(),
		TLS:               b.tls(),
		AllowedOrigins:    c.Clients.AllowedOrigins,
		HandshakeTimeout:  c.Limits.HandshakeTimeout,
		ReadyTimeout:      c.Limits.ReadyTimeout,
		Grace:             c.Shutdown.Grace,
		CloseTimeout:      c.Shutdown.CloseTimeout,
		WriteStall:        c.Limits.WriteStall,
		MaxMessage:        c.Limits.MaxMessage,
		MaxFragments:      c.Limits.MaxFragments,
		MaxHandshakes:     c.Limits.MaxHandshakes,
		MaxSessions:       c.Limits.MaxSessions,
		MaxSessionAge:     c.Limits.MaxSessionAge,
		SessionWarning:    c.Limits.SessionWarning,
		IdleTimeout:       c.Limits.IdleTimeout,
		MemorySoftLimit:   c.Limits.MemorySoftLimit,
		DescriptorReserve: c.Limits.DescriptorReserve,
		Pollers:           c.Relay.Pollers,
		MinWarm:           c.Readiness.MinWarm,
		Path:              absolute(c.Path),
		LogLevel:          hclog.LevelFromString(c.Log.Level),
		LogFormat:         logFormats[c.Log.Format],
		Traces:            b.traces(),
	}
	if len(b.faults) > 0 {
		return daemon.Config{}, nil, b.faults
	}
	return cfg, b.files, nil
}

var logFormats = map[string]string{"text": daemon.LogText, "json": daemon.LogJSON}

func (b *configuration) found(err error) { b.faults = append(b.faults, config.AllFaults(err)...) }

// absolute is a path for people who are elsewhere.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}

func (b *configuration) presets() []dialect.Preset {
	var presets []dialect.Preset
	for _, p := range b.Presets {
		presets = append(presets, dialect.Preset{Name: p.Name, Session: p.Session})
	}
	return presets
}

func (b *configuration) routes() []daemon.Route {
	upstreams := map[string]daemon.Upstream{}
	for i, u := range b.Upstreams {
		upstreams[u.Name] = b.upstream(fmt.Sprintf("upstreams[%d]", i), u)
	}
	var routes []daemon.Route
	for _, r := range b.Routes {
		p := r.Pool
		routes = append(routes, daemon.Route{
			Models:             r.Models,
			Preset:             r.Preset,
			Upstream:           upstreams[r.Upstream],
			AllowClientSecrets: r.AllowClientSecrets,
			Pool: pool.Config{
				Size: p.Size, MaxSize: p.MaxSize, MaxConnections: p.MaxConnections, MaxDialing: p.MaxDialing,
				DialTimeout: p.DialTimeout, CloseTimeout: b.Shutdown.CloseTimeout,
				MaxIdle: p.MaxIdle, MaxAge: p.MaxAge, MinRemaining: p.MinRemaining, AgeJitter: p.AgeJitter,
				Probation: p.Probation, BackoffMin: p.BackoffMin, BackoffMax: p.BackoffMax, AuthBackoff: p.AuthBackoff,
			},
		})
	}
	return routes
}

func (b *configuration) upstream(key string, u config.Upstream) daemon.Upstream {
	return daemon.Upstream{
		Upstream: dialect.Upstream{
			Dialect: u.Provider, Name: u.Name, BaseURL: u.BaseURL(), Credential: b.secret(key+".api_key", u.APIKey, config.APIKey),
			Organization: u.Organization, Project: u.Project, SafetyIdentifier: u.SafetyIdentifier, Beta: u.Beta, Model: u.Model,
		},
		PingInterval:   u.PingInterval,
		PongTimeout:    u.PongTimeout,
		RootCAs:        b.authorities(key+".tls.ca_file", u.TLS.CAFile),
		ServerName:     u.TLS.ServerName,
		CertFile:       u.TLS.CertFile,
		KeyFile:        u.TLS.KeyFile,
		AllowPlaintext: u.AllowPlaintext,
	}
}

func (b *configuration) auth() auth.Config {
	c := auth.Config{
		PassThrough: b.Clients.PassThrough,
		Tokens: auth.Tokens{
			Secret:     []byte(b.secret("clients.tokens.secret", b.Clients.Tokens.Secret, config.TokenSecret)),
			DefaultTTL: b.Clients.Tokens.DefaultTTL,
			MaxTTL:     b.Clients.Tokens.MaxTTL,
		},
	}
	for i, k := range b.Clients.Keys {
		c.Keys = append(c.Keys, auth.Key{
			Name: k.Name, Digest: b.digest(fmt.Sprintf("clients.keys[%d]", i), k), Models: k.Models,
			MaxSessions: k.MaxSessions, ConnectsPerSecond: k.ConnectsPerSecond, Burst: k.Burst, ExpiresAt: k.ExpiresAt,
		})
	}
	return c
}

func (b *configuration) digest(key string, k config.Key) auth.Digest {
	if k.SHA256 == "" {
		return auth.DigestOf(b.secret(key+".key", k.Key, config.ClientKey))
	}
	d, err := auth.ParseDigest(k.SHA256)
	if err != nil {
		b.found(b.Fault(key+".sha256", "%v", err))
	}
	return d
}

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func (b *configuration) tls() daemon.TLS {
	t := b.TLS
	return daemon.TLS{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, MinVersion: tlsVersions[t.MinVersion]}
}

// group is the number of the control socket's group, 0 for the default.
func (b *configuration) group() int {
	id, err := b.GroupID()
	b.found(err)
	return id
}

func (b *configuration) traces() daemon.Traces {
	t := b.Traces
	header := http.Header{}
	for i, h := range t.Headers {
		header.Set(h.Name, b.secret(fmt.Sprintf("traces.headers[%d].value", i), h.Value, config.HeaderValue))
	}
	return daemon.Traces{
		Endpoint: t.EndpointURL(), Header: header, RootCAs: b.authorities("traces.ca_file", t.CAFile),
		SampleRatio: t.SampleRatio, ServiceName: t.ServiceName,
	}
}

// secret reads a secret; prefix is its key without the ending that says where it is.
func (b *configuration) secret(prefix string, s config.Secret, check func(string) error) string {
	if path := b.SecretPath(s); path != "" {
		b.files.add(path)
	}
	v, err := b.Secret(prefix, s, check)
	b.found(err)
	return v
}

// authorities reads the certificates in a file; nil, the system's, for no file.
func (b *configuration) authorities(key, file string) *x509.CertPool {
	if file != "" {
		b.files.add(file)
	}
	roots, err := b.Authorities(key, file)
	b.found(err)
	return roots
}
