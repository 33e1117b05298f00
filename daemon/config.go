package daemon

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/pool"
)

// Defaults of Config; each is named where it applies.
const (
	DefaultListen       = "127.0.0.1:4001"
	DefaultAdmin        = "127.0.0.1:4002"
	DefaultReadyTimeout = 10 * time.Second
	DefaultGrace        = 30 * time.Second
	DefaultCloseTimeout = 2 * time.Second
	DefaultWriteStall   = 30 * time.Second
	DefaultPingInterval = 15 * time.Second
	DefaultPongTimeout  = 45 * time.Second
	DefaultMaxMessage   = 32 << 20
	DefaultMaxFragments = 16 << 10
	DefaultServiceName  = "rtd"
)

// Config is everything a daemon is told. The zero value of a field means its default; New checks the whole and reports
// every fault at once.
type Config struct {
	// Listen holds the data addresses, host:port. Default DefaultListen. A port of 0 takes a free one.
	Listen []string
	// Admin is the address of the admin HTTP listener (/healthz, /readyz), on loopback. Default DefaultAdmin.
	Admin string
	// Socket is the path of the control socket. Default: unixsock.DefaultSocket.
	Socket string
	// SocketMode and SocketGID are the permission bits and the group of the control socket. Default: unixsock.DefaultOptions,
	// or 0660 for a group that is given.
	SocketMode os.FileMode
	SocketGID  int
	// AdminUIDs and AdminGIDs are who may change things over the control socket; everybody else who may open it reads.
	// Default: root, the daemon's user, and the socket's group where its mode lets that in.
	AdminUIDs, AdminGIDs []uint32
	// ControlListen is a TCP address, host:port, that is served as the control socket is. Default "": none.
	ControlListen string
	// ControlTLS holds its certificate and the authorities of its clients; ControlListen takes all three files. TLS 1.3 is spoken.
	ControlTLS TLS
	// ControlAdmins are the names of certificates whose holders may change things over ControlListen; every other certificate of
	// those authorities reads. A certificate's names are its URI and DNS names, or where it has neither its common name; they are
	// compared exactly. Default: none may.
	ControlAdmins []string
	// Routes say which model goes to which upstream. At least one.
	Routes []Route
	// Presets are what sessions can be configured with before a client has them, each under a name of its own; routes and
	// clients name them.
	Presets []dialect.Preset
	// Auth says who is let in. Without keys: whoever is on this host.
	Auth auth.Config
	// TLS makes every data listener speak TLS, and nothing else.
	TLS TLS
	// AllowedOrigins are the values of Origin that are let in, compared exactly. Requests without Origin always are.
	AllowedOrigins []string
	// HandshakeTimeout bounds reading a client's request, from accept to its last header byte. Default wire.HandshakeTimeout (10 s).
	HandshakeTimeout time.Duration
	// ReadyTimeout bounds the wait of a client for an upstream session; after it the client gets 504. Default 10 s.
	ReadyTimeout time.Duration
	// Grace bounds a stop, from the first SIGTERM to the exit, CloseTimeout included. Default 30 s.
	Grace time.Duration
	// CloseTimeout bounds the closing handshake of a session. Default 2 s.
	CloseTimeout time.Duration
	// WriteStall is how long a peer may accept no byte while bytes wait for it. Default 30 s.
	WriteStall time.Duration
	// MaxMessage caps the payload bytes of one message, either way. Default 32 MiB.
	MaxMessage int64
	// MaxFragments caps the frames of one message, either way, at most 65535. Default 16384.
	MaxFragments int
	// MaxHandshakes bounds the clients between accept and 101; more get 503. Default 4096.
	MaxHandshakes int
	// MaxSessions bounds the open sessions, those being opened included; more get 503. Default 0: no bound.
	MaxSessions int
	// MaxSessionAge ends older sessions with 1001. Default 0: never.
	MaxSessionAge time.Duration
	// SessionWarning is how long before MaxSessionAge a client is sent an event that says so; strict SDKs reject its type.
	// Default 0: no event.
	SessionWarning time.Duration
	// IdleTimeout ends sessions in which no message began for that long, either way, with 1000. Default 0: never.
	IdleTimeout time.Duration
	// MemorySoftLimit is the resident set, in bytes, from which new clients get 503. Default 0: when nine tenths of the
	// cgroup's memory limit are in use, if it has one.
	MemorySoftLimit int64
	// DescriptorReserve is how many of the descriptors the process may have are kept from clients, for what else it must
	// open; at most an eighth. Default 64.
	DescriptorReserve int
	// Pollers is the number of relay pollers. Default: one, from five CPUs on one for every two.
	Pollers int
	// MinWarm is how many sessions must be warm, over all pools, before /readyz says so. Default 0: listening is enough.
	MinWarm int
	// Traces say where the traces of sessions go.
	Traces Traces
	// Proxy names the HTTP proxy that a dial to a URL goes through, nil for none. Default: what HTTPS_PROXY, HTTP_PROXY and
	// NO_PROXY said when the process started.
	Proxy func(*url.URL) (*url.URL, error)
	// Source reads the configuration again, for a reload. nil: it cannot be reloaded.
	Source func() (Config, error)
	// Accepted is called once a reload has put the configuration in force, before the next reload begins. It must not reload.
	Accepted func()
	// Path is the file that the configuration came from, for people. "": none.
	Path string
	// Values is the configuration as its writer wrote it, for people who ask the daemon. It decides nothing.
	Values []Value
	// Warnings are what is doubtful in the configuration, one line each. They are logged once it is in force.
	Warnings []string
	// goroutines selects the relay's portable engine, for tests.
	goroutines bool
	// Log receives the log, one write per line; secrets are redacted before. Default: os.Stderr.
	Log io.Writer
	// LogLevel is the least level that is logged. Default: info.
	LogLevel hclog.Level
	// LogFormat is LogText or LogJSON. Default: text where Log is a terminal, JSON elsewhere.
	LogFormat string
}

// TLS says how the data listeners encrypt. The zero value: they do not.
type TLS struct {
	// CertFile and KeyFile hold the certificate, with its chain, and its private key, in PEM. They are read again when they
	// change; a pair that cannot be used leaves the one before in force.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities, in PEM, one of which must have signed the certificate of every client. Default "": no
	// certificate is asked for. It is read again when it changes.
	ClientCAFile string
	// MinVersion is tls.VersionTLS12 or tls.VersionTLS13. Default: TLS 1.2.
	MinVersion uint16
}

// Route sends the clients that ask for one of Models to Upstream.
type Route struct {
	// Models are the names that clients may ask for. At least one.
	Models []string
	// Preset names the one of Config.Presets that the sessions of these models get unless a client names another. Default:
	// none.
	Preset string
	// Upstream is where they go. Its Model, when set, replaces the client's name on the wire; so several Models of one
	// route share one pool.
	Upstream Upstream
	// AllowClientSecrets lets clients in with a client secret of the provider (ek_…), which goes upstream in place of the
	// gateway's credential and is never pooled.
	AllowClientSecrets bool
	// Pool sizes and ages the warm pool. Key, Name and Dial are the daemon's to fill; zero ages take the dialect's defaults.
	Pool pool.Config
}

// Upstream is one provider endpoint.
type Upstream struct {
	dialect.Upstream
	// PingInterval is how often a silent upstream is pinged. Default 15 s.
	PingInterval time.Duration
	// PongTimeout is how long after a ping an upstream may stay wholly silent; providers' pongs have come half a minute
	// late in healthy calls. Any byte counts as life. Default 45 s.
	PongTimeout time.Duration
	// RootCAs verify the upstream's certificate. nil: the system's.
	RootCAs *x509.CertPool
	// ServerName is the name asked for in TLS (SNI) and looked for in the upstream's certificate. Default: the host of BaseURL.
	ServerName string
	// CertFile and KeyFile hold the certificate, with its chain, and the key that are shown to an upstream that asks for one,
	// in PEM. Default "": none. They are read again when they change.
	CertFile, KeyFile string
	// AllowPlaintext lets a credential cross ws:// to another host.
	AllowPlaintext bool
}

// withDefaults returns c with every zero field replaced by its default.
func (c Config) withDefaults() Config {
	if len(c.Listen) == 0 {
		c.Listen = []string{DefaultListen}
	}
	c.Admin = orDefault(c.Admin, DefaultAdmin)
	c.Socket = orDefault(c.Socket, unixsock.DefaultSocket())
	c.ReadyTimeout = orDefault(c.ReadyTimeout, DefaultReadyTimeout)
	c.Grace = orDefault(c.Grace, DefaultGrace)
	c.CloseTimeout = orDefault(c.CloseTimeout, DefaultCloseTimeout)
	c.WriteStall = orDefault(c.WriteStall, DefaultWriteStall)
	c.MaxMessage = orDefault(c.MaxMessage, DefaultMaxMessage)
	c.MaxFragments = orDefault(c.MaxFragments, DefaultMaxFragments)
	c.MaxHandshakes = orDefault(c.MaxHandshakes, DefaultMaxHandshakes)
	c.DescriptorReserve = orDefault(c.DescriptorReserve, DefaultDescriptorReserve)
	c.LogLevel = orDefault(c.LogLevel, hclog.Info)
	if c.Log == nil {
		c.Log = os.Stderr
	}
	if c.Proxy == nil {
		c.Proxy = proxyFromEnvironment()
	}
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		u := &c.Routes[i].Upstream
		u.PingInterval = orDefault(u.PingInterval, DefaultPingInterval)
		u.PongTimeout = orDefault(u.PongTimeout, DefaultPongTimeout)
	}
	return c
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// validate reports every fault of c, one line each.
func (c Config) validate() error {
	var errs []error
	for _, addr := range c.Listen {
		errs = append(errs, checkListen("listen", addr, c.open()))
	}
	errs = append(errs, checkListen("admin", c.Admin, true), c.TLS.validate(), c.validateControl(), c.Auth.Validate())
	if len(c.Routes) == 0 {
		errs = append(errs, errors.New("routes: none given; name at least one model and its upstream"))
	}
	presets, presetsErr := c.presets()
	errs = append(errs, presetsErr)
	seen := map[string]bool{}
	for _, r := range c.Routes {
		if presets[r.Preset] == nil && r.Preset != "" {
			errs = append(errs, fmt.Errorf("route of models %s: there is no preset %q", strings.Join(r.Models, ", "), r.Preset))
		}
		if len(r.Models) == 0 {
			errs = append(errs, fmt.Errorf("route to %s: no models; name at least one", r.Upstream.Name))
		}
		for _, m := range r.Models {
			if seen[m] {
				errs = append(errs, fmt.Errorf("route of model %q: the model already has a route", m))
			}
			seen[m] = true
		}
		errs = append(errs, r.Upstream.validate(c.Auth.PassThrough || r.AllowClientSecrets))
		if err := r.Pool.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("pool of models %s: %w", strings.Join(r.Models, ", "), err))
		}
	}
	errs = append(errs, c.validateLimits(), c.Traces.validate())
	if c.Grace <= c.CloseTimeout {
		errs = append(errs, fmt.Errorf("grace: %v leaves no room for close_timeout (%v); make it longer", c.Grace, c.CloseTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) validateLimits() error {
	var errs []error
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"max_handshakes", int64(c.MaxHandshakes)}, {"max_sessions", int64(c.MaxSessions)}, {"max_session_age", int64(c.MaxSessionAge)}, {"session_warning", int64(c.SessionWarning)},
		{"idle_timeout", int64(c.IdleTimeout)}, {"memory_soft_limit", c.MemorySoftLimit}, {"descriptor_reserve", int64(c.DescriptorReserve)},
	} {
		if l.value < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative", l.name))
		}
	}
	if c.MaxFragments < 0 || c.MaxFragments > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("max_fragments %d is not between 1 and %d", c.MaxFragments, math.MaxUint16))
	}
	return errors.Join(errs...)
}

// open reports whether clients need neither a key nor a certificate.
func (c Config) open() bool { return c.Auth.Open() && c.TLS.ClientCAFile == "" }

// checkListen refuses an address that is not host:port, and one beyond loopback where only loopback is safe.
func checkListen(key, addr string, loopbackOnly bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %q is not host:port: %w", key, addr, err)
	}
	if loopbackOnly && !isLoopback(host) {
		return fmt.Errorf("%s: %q is reachable from other hosts while no client key is configured; use a loopback address or set a client key", key, addr)
	}
	return nil
}

func (u Upstream) validate(passes bool) error {
	if _, ok := dialect.Lookup(u.Dialect); !ok {
		return fmt.Errorf("upstream provider %q is unknown; known are %s", u.Dialect, strings.Join(dialect.Names(), ", "))
	}
	if (u.Credential != "" || passes) && isPlaintext(u.BaseURL) && !isLoopback(u.BaseURL.Hostname()) && !u.AllowPlaintext {
		return fmt.Errorf("upstream %s: the credential would cross the network in clear; use wss:// or allow plaintext", u.BaseURL.Host)
	}
	if (u.CertFile == "") != (u.KeyFile == "") {
		return fmt.Errorf("upstream %s: tls: cert_file and key_file go together; name both or neither", u.Name)
	}
	return nil
}

// isPlaintext reports whether an address is given and not encrypted.
func isPlaintext(u *url.URL) bool { return u != nil && (u.Scheme == "ws" || u.Scheme == "http") }

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
