package config

import (
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
)

// Bounds that several keys share: far from both ends of what anybody means, so that a slip of the unit is found.
const (
	never    = 365 * day // as good as no limit
	maxCount = 1_000_000
	maxBytes = 1 << 40
)

// keys are the keys of the whole file.
func (f *File) keys() []key {
	return []key{
		{name: "listen", scalar: texts(&f.Listen, address), def: "127.0.0.1:4001", fixed: true,
			doc: "Addresses that clients connect to, host:port. Port 0 takes a free one. Anything but loopback needs a client key, or tls.client_ca_file."},
		{name: "admin", scalar: address(&f.Admin), def: "127.0.0.1:4002", fixed: true,
			doc: "Address of the HTTP listener for /healthz, /readyz and /metrics; loopback only."},
		{name: "control", keys: f.Control.keys(), doc: "The socket that rtctl uses."},
		{name: "upstreams", list: newList(&f.Upstreams, (*Upstream).keys), required: true, doc: "Provider endpoints."},
		{name: "presets", list: newList(&f.Presets, (*Preset).keys), doc: "What sessions can be configured with before a client has them."},
		{name: "routes", list: newList(&f.Routes, (*Route).keys), required: true, doc: "Which models go to which upstream, each with a pool of warm sessions."},
		{name: "clients", keys: f.Clients.keys(), doc: "Who may connect. Without a client key everybody on this host may, and nobody else."},
		{name: "limits", keys: f.Limits.keys(), doc: "What clients may cost."},
		{name: "tls", keys: f.TLS.keys(), doc: "Encryption between clients and rtd. Without a certificate there is none."},
		{name: "shutdown", keys: f.Shutdown.keys(), doc: "How a stop goes."},
		{name: "readiness", keys: f.Readiness.keys(), doc: "What /readyz waits for, besides the listeners."},
		{name: "relay", keys: f.Relay.keys(), doc: "The relay of frames."},
		{name: "log", keys: f.Log.keys(), doc: "The log, on standard error."},
		{name: "traces", keys: f.Traces.keys(), doc: "Traces of sessions, for OpenTelemetry. Without an endpoint there are none."},
	}
}

func (c *Control) keys() []key {
	return []key{
		{name: "socket", scalar: path(&c.Socket), env: "RTD_SOCKET", fixed: true,
			defDoc: "the first of /run/rtd/rtd.sock, $XDG_RUNTIME_DIR/rtd/rtd.sock and /tmp/rtd-UID/rtd.sock that can be made",
			doc:    "Path of the Unix socket. rtctl looks in the same places."},
		{name: "mode", scalar: mode(&c.Mode), fixed: true, defDoc: "0660 with a group, else 0600",
			doc: "Permission bits of the socket, in quotes."},
		{name: "group", scalar: text(&c.Group), fixed: true, defDoc: "rtd, where there is such a group",
			doc: "Group of the socket, by name or number. Its members are admins if the mode lets them write."},
		{name: "admin_uids", scalar: ids(&c.AdminUIDs), fixed: true, defDoc: "root and the daemon's own user",
			doc: "Numeric ids of the users who may change things. Everybody else who can open the socket may look."},
		{name: "admin_gids", scalar: ids(&c.AdminGIDs), fixed: true, defDoc: "the group of the socket",
			doc: "Numeric ids of the groups whose members may change things."},
		{name: "listen", scalar: address(&c.Listen), fixed: true, defDoc: "none",
			doc: "TCP address, host:port, on which rtctl is served as on the socket, over TLS with certificates on both sides. Takes all three files of control.tls."},
		{name: "tls", keys: c.TLS.keys(), doc: "Certificates of listen. TLS 1.3 is spoken, and nothing else."},
		{name: "admins", scalar: texts(&c.Admins, anyText), defDoc: "none",
			doc: "Names of certificates whose holders may change things over listen; every other certificate may look. A certificate's names are its URI and DNS names, or where it has neither, its common name."},
	}
}

func (t *ControlTLS) keys() []key {
	return []key{
		{name: "cert_file", scalar: path(&t.CertFile), doc: "Certificate, with its chain, in PEM. The files of this section are read again when they change."},
		{name: "key_file", scalar: path(&t.KeyFile), doc: "Its private key, in PEM."},
		{name: "client_ca_file", scalar: path(&t.ClientCAFile), doc: "Authorities, in PEM, one of which must have signed the certificate of whoever connects. Take one that signs for nobody else."},
	}
}

func (u *Upstream) keys() []key {
	keys := []key{
		{name: "name", scalar: text(&u.Name), required: true, doc: "What routes, logs and rtctl call it."},
		{name: "provider", scalar: text(&u.Provider, dialect.Names()...), required: true,
			doc: "Whose protocol it speaks: openai, or compatible for a server with the same protocol."},
		{name: "url", scalar: text(&u.URL).checked(`^(wss?|https?)://`, checkURL), defDoc: "the provider's own address; compatible has none",
			doc: "Base address, ws:// or wss://, with or without /realtime at its end."},
	}
	keys = append(keys, u.APIKey.keys("api_key", "the provider's API key")...)
	return append(keys,
		key{name: "organization", scalar: text(&u.Organization), doc: "Sent as OpenAI-Organization."},
		key{name: "project", scalar: text(&u.Project), doc: "Sent as OpenAI-Project."},
		key{name: "safety_identifier", scalar: text(&u.SafetyIdentifier), doc: "Sent as OpenAI-Safety-Identifier."},
		key{name: "beta", scalar: boolean(&u.Beta), def: "false", doc: "Ask for the beta shape of the protocol, with an OpenAI-Beta header."},
		key{name: "model", scalar: text(&u.Model), defDoc: "the name that the client used",
			doc: "The model's name at the upstream. With it, all models of a route share one pool."},
		key{name: "ping_interval", scalar: duration(&u.PingInterval, time.Second, time.Hour), def: "15s", doc: "How often a silent upstream is pinged."},
		key{name: "pong_timeout", scalar: duration(&u.PongTimeout, time.Second, time.Hour), def: "45s",
			doc: "How long after a ping an upstream may stay wholly silent. Any byte counts as life."},
		key{name: "tls", keys: u.TLS.keys(), doc: "How rtd and the upstream prove themselves to each other."},
		key{name: "allow_plaintext", scalar: boolean(&u.AllowPlaintext), def: "false",
			doc: "Let the API key cross the network in clear, to a ws:// address that is not loopback."},
	)
}

func (t *UpstreamTLS) keys() []key {
	return []key{
		{name: "ca_file", scalar: path(&t.CAFile), defDoc: "the system's authorities",
			doc: "Certificates, in PEM, that the upstream's certificate must come from, in place of the system's."},
		{name: "server_name", scalar: text(&t.ServerName), defDoc: "the host of url", doc: "Name asked for in TLS (SNI), and looked for in the upstream's certificate."},
		{name: "cert_file", scalar: path(&t.CertFile), doc: "Certificate, with its chain, in PEM, for an upstream that asks for one."},
		{name: "key_file", scalar: path(&t.KeyFile), doc: "Its private key, in PEM."},
	}
}

func (t *TLS) keys() []key {
	return []key{
		{name: "cert_file", scalar: path(&t.CertFile), doc: "Certificate, with its chain, in PEM. The files of this section are read again when they change."},
		{name: "key_file", scalar: path(&t.KeyFile), doc: "Its private key, in PEM."},
		{name: "client_ca_file", scalar: path(&t.ClientCAFile), doc: "Authorities, in PEM, one of which must have signed every client's certificate. Without it none is asked for."},
		{name: "min_version", scalar: text(&t.MinVersion, "1.2", "1.3"), defDoc: `"1.2"`, doc: "Least version of TLS, in quotes."},
	}
}

func (p *Preset) keys() []key {
	return []key{
		{name: "name", scalar: name(&p.Name), required: true, doc: "What routes, clients and rtctl call it."},
		{name: "session", scalar: jsonObject(&p.Session, dialect.MaxPreset), required: true, hidden: true,
			doc: "The `session` of the `session.update` that rtd sends, as the provider has it. In the environment: JSON."},
	}
}

func (r *Route) keys() []key {
	return []key{
		{name: "models", scalar: texts(&r.Models, anyText), required: true,
			doc: "Names that clients ask for. A session that names no model takes the first route."},
		{name: "upstream", scalar: text(&r.Upstream), defDoc: "the only upstream, if there is one only", doc: "Name of the upstream they go to."},
		{name: "preset", scalar: text(&r.Preset), doc: "Name of the preset of sessions whose client names none with `?preset=`."},
		{name: "allow_client_secrets", scalar: boolean(&r.AllowClientSecrets), def: "false",
			doc: "Let clients in with a client secret that the provider minted (`ek_…`): it goes upstream in place of rtd's own credential, past the pool."},
		{name: "pool", keys: r.Pool.keys(), doc: "The warm sessions of the route; each model has a pool of its own, unless the upstream names one model for all."},
	}
}

func (p *Pool) keys() []key {
	age := func(d *time.Duration) *scalar { return duration(d, time.Millisecond, never) }
	return []key{
		{name: "size", scalar: whole(&p.Size, 0, maxCount), def: "8",
			doc: "Sessions to keep warm. A reload applies it if it differs from the last configuration; otherwise what rtctl pool resize set stays."},
		{name: "max_size", scalar: whole(&p.MaxSize, 1, maxCount), def: "4096", doc: "What rtctl pool resize may ask for at most."},
		{name: "max_connections", scalar: whole(&p.MaxConnections, 0, maxCount), def: "0",
			doc: "Most connections to the upstream: idle, dialling, in use and closing together. 0: any number. A client for whom there is no room gets 503."},
		{name: "max_dialing", scalar: whole(&p.MaxDialing, 1, maxCount), def: "16", doc: "Most sessions being warmed at a time."},
		{name: "dial_timeout", scalar: duration(&p.DialTimeout, time.Millisecond, time.Hour), def: "10s", doc: "Bound of a dial, from name lookup to the last frame before the session is ready."},
		{name: "max_idle", scalar: age(&p.MaxIdle), defDoc: providerDefault(func(d dialect.Defaults) time.Duration { return d.MaxIdle }),
			doc: "How long a session may wait for a client."},
		{name: "max_age", scalar: age(&p.MaxAge), defDoc: providerDefault(func(d dialect.Defaults) time.Duration { return d.MaxAge }),
			doc: "How old a session may be when a client gets it."},
		{name: "age_jitter", scalar: age(&p.AgeJitter), defDoc: "a fifth of the session's life",
			doc: "How far before its limit a session may be replaced, so that sessions made together are not replaced together; at most half its life."},
		{name: "min_remaining", scalar: age(&p.MinRemaining), defDoc: providerDefault(func(d dialect.Defaults) time.Duration { return d.MinRemaining }),
			doc: "How much of the life that the provider gave a session must be left when a client gets it."},
		{name: "probation", scalar: age(&p.Probation), def: "5s", doc: "A session that ends earlier counts as a failed dial."},
		{name: "backoff_min", scalar: age(&p.BackoffMin), def: "250ms", doc: "Shortest pause after a failed dial."},
		{name: "backoff_max", scalar: age(&p.BackoffMax), def: "15s", doc: "Longest pause, after many."},
		{name: "auth_backoff", scalar: age(&p.AuthBackoff), def: "1m", doc: "Pause after the upstream refused the key, the model or the account."},
	}
}

func (c *Clients) keys() []key {
	return []key{
		{name: "keys", list: newList(&c.Keys, (*Key).keys), doc: "Keys that clients present, each with its own limits."},
		{name: "allowed_origins", scalar: texts(&c.AllowedOrigins, origin),
			doc: "Origins of web pages that may connect, compared exactly. A client that sends no Origin is no web page and not asked."},
		{name: "pass_through", scalar: boolean(&c.PassThrough), def: "false",
			doc: "Send a credential that is none of keys upstream, in place of the gateway's own."},
		{name: "tokens", keys: c.Tokens.keys(), doc: "Short-lived tokens that keys mint for browsers."},
	}
}

func (k *Key) keys() []key {
	keys := []key{
		{name: "name", scalar: name(&k.Name), required: true, doc: "What logs and rtctl call the key."},
	}
	keys = append(keys, k.Key.keys("key", "the key")...)
	return append(keys,
		key{name: "sha256", scalar: text(&k.SHA256).matching(`^[0-9a-f]{64}$`, "64 hexadecimal digits, as sha256sum prints them"), hidden: true,
			doc: "Digest of the key, for a key that rtd's host need not hold."},
		key{name: "models", scalar: texts(&k.Models, anyText), defDoc: "every model", doc: "Models the key may ask for."},
		key{name: "max_sessions", scalar: whole(&k.MaxSessions, 0, maxCount), def: "0", doc: "Most sessions open at a time. 0: any number."},
		key{name: "connects_per_second", scalar: number(&k.ConnectsPerSecond, 0, maxCount), def: "0", doc: "Rate of new sessions and tokens. 0: any."},
		key{name: "burst", scalar: whole(&k.Burst, 1, maxCount), defDoc: "connects_per_second, rounded up", doc: "How many may come at once."},
		key{name: "expires_at", scalar: instant(&k.ExpiresAt), defDoc: "never", doc: "When the key ends."},
	)
}

func (t *Tokens) keys() []key {
	return append(t.Secret.keys("secret", "the secret, of 32 bytes or more, that signs tokens; without one, tokens end with the process"),
		key{name: "default_ttl", scalar: duration(&t.DefaultTTL, time.Second, 30*day), def: "10m", doc: "Life of a token that asks for none."},
		key{name: "max_ttl", scalar: duration(&t.MaxTTL, time.Second, 30*day), def: "2h", doc: "Longest life of a token."},
	)
}

func (l *Limits) keys() []key {
	return []key{
		{name: "handshake_timeout", scalar: duration(&l.HandshakeTimeout, 100*time.Millisecond, time.Hour), def: "10s", doc: "Bound of a client's request, from its connection to the last header byte."},
		{name: "ready_timeout", scalar: duration(&l.ReadyTimeout, 100*time.Millisecond, time.Hour), def: "10s", doc: "How long a client waits for an upstream session before it gets 504."},
		{name: "max_handshakes", scalar: whole(&l.MaxHandshakes, 1, maxCount), def: "4096", doc: "Most clients between connection and answer; more get 503."},
		{name: "max_sessions", scalar: whole(&l.MaxSessions, 0, maxCount), def: "0", doc: "Most sessions open at a time; more get 503. 0: any number."},
		{name: "max_message", scalar: size(&l.MaxMessage, 1<<10, 1<<30), def: "32MiB", fixed: true, doc: "Largest message, either way; a larger one ends its session with 1009."},
		{name: "max_fragments", scalar: whole(&l.MaxFragments, 1, 65535), def: "16384", fixed: true, doc: "Most frames of one message, either way; more end its session with 1009."},
		{name: "max_session_age", scalar: duration(&l.MaxSessionAge, 0, never), def: "0s", doc: "Older sessions get a Close 1001. 0s: none does."},
		{name: "session_warning", scalar: duration(&l.SessionWarning, 0, never), def: "0s", doc: "How long before max_session_age a client is sent the event `rtd.session.expiring`, which strict SDKs reject; not above that. 0s: it is not."},
		{name: "idle_timeout", scalar: duration(&l.IdleTimeout, 0, never), def: "0s", doc: "Sessions without a message for so long, either way, get a Close 1000. 0s: none does."},
		{name: "write_stall", scalar: duration(&l.WriteStall, 100*time.Millisecond, time.Hour), def: "30s", fixed: true, doc: "How long a peer may take no byte while bytes wait for it."},
		{name: "memory_soft_limit", scalar: size(&l.MemorySoftLimit, 0, maxBytes), def: "0B", defDoc: "nine tenths of the cgroup's limit, if it has one",
			doc: "Resident memory from which new clients get 503. 0B: the default."},
		{name: "descriptor_reserve", scalar: whole(&l.DescriptorReserve, 1, maxCount), def: "64", doc: "Descriptors kept from clients for what else rtd must open; at most an eighth of all."},
	}
}

func (s *Shutdown) keys() []key {
	return []key{
		{name: "grace", scalar: duration(&s.Grace, 0, day), def: "30s", doc: "How long a stop may take, close_timeout included. Also the time rtctl drain gives, unless told another."},
		{name: "close_timeout", scalar: duration(&s.CloseTimeout, 10*time.Millisecond, time.Hour), def: "2s", fixed: true, doc: "How long a peer has to answer a Close frame."},
	}
}

func (r *Readiness) keys() []key {
	return []key{
		{name: "min_warm", scalar: whole(&r.MinWarm, 0, maxCount), def: "0", doc: "Warm sessions, over all pools, before /readyz says ok. 0: do not wait."},
	}
}

func (r *Relay) keys() []key {
	return []key{
		{name: "pollers", scalar: whole(&r.Pollers, 0, 256), def: "0", defDoc: "one, from five CPUs on one for every two", fixed: true,
			doc: "Threads that move frames. 0: the default."},
	}
}

func (l *Log) keys() []key {
	return []key{
		{name: "level", scalar: text(&l.Level, "trace", "debug", "info", "warn", "error"), def: "info",
			doc: "Least weight of a line. A reload applies it if it differs from the last configuration."},
		{name: "format", scalar: text(&l.Format, "auto", "text", "json"), def: "auto", fixed: true,
			doc: "text, json, or auto: text on a terminal and json elsewhere."},
	}
}

// name is what people call one of several things.
func name(p *string) *scalar {
	return text(p).matching(`^[!-~]{1,64}$`, "1 to 64 visible ASCII characters")
}

// path is the name of a file.
func path(p *string) *scalar { return text(p) }

func anyText(p *string) *scalar { return text(p) }

func origin(p *string) *scalar {
	return text(p).matching(`^[a-z][a-z0-9+.-]*://[^/?#\s]+$`, "an origin such as https://app.example.com, without a path")
}

// providerDefault lists what the providers' own values are.
func providerDefault(of func(dialect.Defaults) time.Duration) string {
	list := "the provider's: "
	for i, name := range dialect.Names() {
		d, _ := dialect.Lookup(name)
		value := "none"
		if v := of(d.Defaults()); v > 0 {
			value = showDuration(v)
		}
		if i > 0 {
			list += ", "
		}
		list += value + " for " + name
	}
	return list
}
