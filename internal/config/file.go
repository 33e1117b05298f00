package config

import (
	"net/url"
	"os"
	"time"
)

// File is a whole configuration. Every field has its value: what was not given has its default. The keys are described
// in keys.go.
type File struct {
	Listen    []string
	Admin     string
	Control   Control
	Upstreams []Upstream
	Presets   []Preset
	Routes    []Route
	Clients   Clients
	Limits    Limits
	TLS       TLS
	Shutdown  Shutdown
	Readiness Readiness
	Relay     Relay
	Log       Log
	Traces    Traces
}

// Control is the control socket and who may use it.
type Control struct {
	Socket               string
	Mode                 os.FileMode // 0: by default
	Group                string
	AdminUIDs, AdminGIDs []uint32
	Listen               string // "": not over TCP
	TLS                  ControlTLS
	Admins               []string
}

// ControlTLS is how control over TCP is encrypted, and whose certificates it takes.
type ControlTLS struct{ CertFile, KeyFile, ClientCAFile string }

// Upstream is one provider endpoint.
type Upstream struct {
	Name, Provider, URL                     string
	APIKey                                  Secret
	Organization, Project, SafetyIdentifier string
	Beta                                    bool
	Model                                   string
	PingInterval, PongTimeout               time.Duration
	TLS                                     UpstreamTLS
	AllowPlaintext                          bool
}

// UpstreamTLS is how rtd and an upstream prove themselves to each other.
type UpstreamTLS struct {
	CAFile, ServerName, CertFile, KeyFile string
}

// Preset is what sessions are configured with before a client has them.
type Preset struct {
	Name    string
	Session []byte // a JSON object
}

// Route sends models to an upstream.
type Route struct {
	Models             []string
	Upstream           string // a name; never empty after Load
	Preset             string // a name, "" for none
	AllowClientSecrets bool
	Pool               Pool
}

// Pool sizes and ages the warm sessions of a route. Zero ages are the provider's.
type Pool struct {
	Size, MaxSize, MaxConnections, MaxDialing int
	DialTimeout                               time.Duration
	MaxIdle, MaxAge, AgeJitter, MinRemaining  time.Duration
	Probation                                 time.Duration
	BackoffMin, BackoffMax, AuthBackoff       time.Duration
}

// Clients says who is let in.
type Clients struct {
	Keys           []Key
	AllowedOrigins []string
	PassThrough    bool
	Tokens         Tokens
}

// Tokens are the short-lived tokens that keys mint for browsers.
type Tokens struct {
	Secret             Secret
	DefaultTTL, MaxTTL time.Duration
}

// Key is one client key.
type Key struct {
	Name              string
	Key               Secret
	SHA256            string
	Models            []string
	MaxSessions       int
	ConnectsPerSecond float64
	Burst             int
	ExpiresAt         time.Time
}

// Limits bound what clients may cost.
type Limits struct {
	HandshakeTimeout, ReadyTimeout time.Duration
	MaxHandshakes, MaxSessions     int
	MaxMessage                     int64
	MaxFragments                   int
	MaxSessionAge, IdleTimeout     time.Duration
	SessionWarning                 time.Duration
	WriteStall                     time.Duration
	MemorySoftLimit                int64
	DescriptorReserve              int
}

// TLS is how the data listeners encrypt.
type TLS struct{ CertFile, KeyFile, ClientCAFile, MinVersion string }

// Shutdown bounds a stop.
type Shutdown struct{ Grace, CloseTimeout time.Duration }

// Readiness is what /readyz waits for.
type Readiness struct{ MinWarm int }

// Relay tunes the relay.
type Relay struct{ Pollers int }

// Log is how much is logged and in which form.
type Log struct{ Level, Format string }

// Traces say where the traces of sessions go.
type Traces struct {
	Endpoint, ServiceName, CAFile string
	SampleRatio                   float64
	Headers                       []Header
}

// Header is sent to the receiver of traces.
type Header struct {
	Name  string
	Value Secret
}

// EndpointURL is the parsed endpoint, nil for none. It cannot fail after Load.
func (t Traces) EndpointURL() *url.URL { return parsed(t.Endpoint) }

// BaseURL is the parsed URL, nil for the provider's own address. It cannot fail after Load.
func (u Upstream) BaseURL() *url.URL { return parsed(u.URL) }

func parsed(address string) *url.URL {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	return u
}
