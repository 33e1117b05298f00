package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/config"
	"github.com/rtd-project/rtd/internal/sim"
)

// obeyed gives every key another value than it has in the test below. %s is a directory.
var obeyed = map[string]string{
	"listen":                              "127.0.0.1:7",
	"admin":                               "127.0.0.1:7",
	"control.socket":                      "/tmp/other.sock",
	"control.mode":                        "0666",
	"control.group":                       "12345",
	"control.admin_uids":                  "7",
	"control.admin_gids":                  "7",
	"control.listen":                      "127.0.0.1:7",
	"control.tls.cert_file":               "%s/other",
	"control.tls.key_file":                "%s/other",
	"control.tls.client_ca_file":          "%s/other",
	"control.admins":                      "ops",
	"upstreams[0].name":                   "up2",
	"upstreams[0].provider":               "openai",
	"upstreams[0].url":                    "wss://example.org/v1",
	"upstreams[0].api_key_env":            "OTHER_KEY",
	"upstreams[0].api_key_file":           "%s/other",
	"upstreams[0].api_key_credential":     "other",
	"upstreams[0].organization":           "o",
	"upstreams[0].project":                "p",
	"upstreams[0].safety_identifier":      "s",
	"upstreams[0].beta":                   "true",
	"upstreams[0].model":                  "n",
	"upstreams[0].ping_interval":          "7s",
	"upstreams[0].pong_timeout":           "7s",
	"upstreams[0].tls.ca_file":            "%s/ca.pem",
	"upstreams[0].tls.server_name":        "name",
	"upstreams[0].tls.cert_file":          "%s/other",
	"upstreams[0].tls.key_file":           "%s/other",
	"upstreams[0].allow_plaintext":        "true",
	"presets[0].name":                     "p2",
	"presets[0].session":                  `{"type":"other"}`,
	"routes[0].models":                    "m,m2",
	"routes[0].preset":                    "p",
	"routes[0].upstream":                  "second",
	"routes[0].allow_client_secrets":      "true",
	"routes[0].pool.size":                 "7",
	"routes[0].pool.max_size":             "777",
	"routes[0].pool.max_connections":      "7",
	"routes[0].pool.max_dialing":          "7",
	"routes[0].pool.dial_timeout":         "7s",
	"routes[0].pool.max_idle":             "7s",
	"routes[0].pool.max_age":              "7s",
	"routes[0].pool.age_jitter":           "7s",
	"routes[0].pool.min_remaining":        "7s",
	"routes[0].pool.probation":            "7s",
	"routes[0].pool.backoff_min":          "7s",
	"routes[0].pool.backoff_max":          "7s",
	"routes[0].pool.auth_backoff":         "7s",
	"clients.keys[0].name":                "k2",
	"clients.keys[0].key_env":             "OTHER_KEY",
	"clients.keys[0].key_file":            "%s/other",
	"clients.keys[0].key_credential":      "other",
	"clients.keys[0].sha256":              "", // see TestADigestStandsForAKey
	"clients.keys[0].models":              "m",
	"clients.keys[0].max_sessions":        "7",
	"clients.keys[0].connects_per_second": "7",
	"clients.keys[0].burst":               "7",
	"clients.keys[0].expires_at":          "2030-01-31T12:00:00Z",
	"clients.allowed_origins":             "https://example.com",
	"clients.pass_through":                "true",
	"clients.tokens.secret_env":           "OTHER_KEY",
	"clients.tokens.secret_file":          "%s/other",
	"clients.tokens.secret_credential":    "other",
	"clients.tokens.default_ttl":          "7s",
	"clients.tokens.max_ttl":              "77m",
	"limits.handshake_timeout":            "7s",
	"limits.ready_timeout":                "7s",
	"limits.max_handshakes":               "7",
	"limits.max_sessions":                 "7",
	"limits.max_message":                  "7KiB",
	"limits.max_fragments":                "7",
	"limits.max_session_age":              "7s",
	"limits.session_warning":              "7s",
	"limits.idle_timeout":                 "7s",
	"limits.write_stall":                  "7s",
	"limits.memory_soft_limit":            "7GiB",
	"limits.descriptor_reserve":           "7",
	"tls.cert_file":                       "%s/other",
	"tls.key_file":                        "%s/other",
	"tls.client_ca_file":                  "%s/ca.pem",
	"tls.min_version":                     "1.3",
	"shutdown.grace":                      "7s",
	"shutdown.close_timeout":              "7s",
	"readiness.min_warm":                  "7",
	"relay.pollers":                       "7",
	"log.level":                           "debug",
	"log.format":                          "json",
	"traces.endpoint":                     "https://example.org",
	"traces.sample_ratio":                 "0.7",
	"traces.service_name":                 "other",
	"traces.ca_file":                      "%s/ca.pem",
	"traces.headers[0].name":              "x-other",
	"traces.headers[0].value_env":         "OTHER_KEY",
	"traces.headers[0].value_file":        "%s/other",
	"traces.headers[0].value_credential":  "other",
}

// obeyDir holds what the values of the table name.
func obeyDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), "sk-test-ONE")
	write(t, filepath.Join(dir, "other"), strings.Repeat("other", 10))
	s, err := sim.New(sim.Config{TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, filepath.Join(dir, "ca.pem"), string(s.CAPEM()))
	return dir
}

// configured maps a file, with more of the environment, to the daemon's configuration.
func configured(t *testing.T, path string, environ ...string) daemon.Config {
	t.Helper()
	c, err := config.Load(config.Options{Path: path, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := configure(c)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// No key is there for show: each changes what the daemon is told.
func TestEveryKeyIsObeyed(t *testing.T) {
	dir := obeyDir(t)
	path := filepath.Join(dir, "rtd.yaml")
	write(t, path, fmt.Sprintf(`upstreams:
  - {name: up, provider: compatible, url: wss://example.com/v1, api_key_file: %[1]s/key, tls: {cert_file: %[1]s/key, key_file: %[1]s/key}}
  - {name: second, provider: compatible, url: wss://example.com/v2}
presets:
  - {name: p, session: {type: realtime}}
routes:
  - {models: [m], upstream: up}
clients: {keys: [{name: k, key_file: %[1]s/key}]}
tls: {cert_file: %[1]s/key, key_file: %[1]s/key}
control: {listen: "127.0.0.1:0", tls: {cert_file: %[1]s/key, key_file: %[1]s/key, client_ca_file: %[1]s/key}}
limits: {max_session_age: 1h}
traces: {endpoint: "https://example.com", headers: [{name: x, value_file: %[1]s/key}]}
`, dir))
	secrets := []string{"OTHER_KEY=" + strings.Repeat("sk-test-OTHER", 4), "CREDENTIALS_DIRECTORY=" + dir}
	before := configured(t, path, secrets...)
	c, err := config.Load(config.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Values() {
		if strings.HasPrefix(v.Key, "upstreams[1]") {
			continue
		}
		other, ok := obeyed[v.Key]
		if !ok {
			t.Errorf("%s is in no line of the table", v.Key)
			continue
		}
		if other == "" {
			continue
		}
		environ := append([]string{v.Variable + "=" + strings.ReplaceAll(other, "%s", dir)}, secrets...)
		if v.Key == "upstreams[0].name" {
			environ = append(environ, "RTD_ROUTES_0_UPSTREAM="+other)
		}
		after := configured(t, path, environ...)
		if reflect.DeepEqual(before, after) {
			t.Errorf("%s=%s changes nothing for the daemon", v.Variable, other)
		}
	}
}

func TestADigestStandsForAKey(t *testing.T) {
	sum := sha256.Sum256([]byte("sk-test-ONE"))
	keys := func(k string) daemon.Config {
		path := filepath.Join(t.TempDir(), "rtd.yaml")
		write(t, path, "upstreams: [{name: up, provider: compatible, url: wss://x/v1}]\nroutes: [{models: [m]}]\nclients: {keys: [{name: k, "+k+"}]}\n")
		cfg := configured(t, path, "KEY=sk-test-ONE")
		cfg.Path = ""
		return cfg
	}
	if a, b := keys("key_env: KEY"), keys("sha256: "+hex.EncodeToString(sum[:])); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a.Auth, b.Auth)
	}
}

// What the reference says of reload is what a reload does.
func TestFixedKeysAreThoseAReloadRefuses(t *testing.T) {
	dir := obeyDir(t)
	path := filepath.Join(dir, "rtd.yaml")
	write(t, path, fmt.Sprintf(`listen: ["127.0.0.1:0"]
admin: 127.0.0.1:0
control: {socket: %[1]s/s}
upstreams:
  - {name: up, provider: compatible, url: "ws://127.0.0.1:1/v1"}
  - {name: second, provider: compatible, url: "ws://127.0.0.1:1/v2"}
routes:
  - {models: [m], upstream: up, pool: {size: 0}}
clients: {keys: [{name: k, key_file: %[1]s/key}]}
traces: {endpoint: "https://127.0.0.1:1", headers: [{name: x, value_file: %[1]s/key}]}
`, dir))
	before := configured(t, path)
	before.Log = io.Discard
	d, err := daemon.New(before)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-d.Ready()
	c, err := config.Load(config.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Values() {
		other := strings.ReplaceAll(obeyed[v.Key], "%s", dir)
		environ := []string{v.Variable + "=" + other, "OTHER_KEY=" + strings.Repeat("sk-test-OTHER", 4), "CREDENTIALS_DIRECTORY=" + dir}
		c, err := config.Load(config.Options{Path: path, Environ: environ})
		if err != nil {
			continue // of no use alone, such as half a certificate
		}
		after, _, err := configure(c)
		if err != nil {
			t.Fatal(err)
		}
		after.Log = io.Discard
		_, err = d.Reload(after)
		if refused := err != nil && strings.Contains(err.Error(), v.Key+": "+daemon.ErrFixed.Error()); refused != v.Fixed {
			t.Errorf("%s=%s: a reload says %v, and the reference says fixed: %v", v.Variable, other, err, v.Fixed)
		}
	}
}

// What the file says of defaults is what the daemon would do untold.
func TestTheDefaultsAreTheDaemons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rtd.yaml")
	write(t, path, "upstreams: [{name: up, provider: compatible, url: wss://x/v1}]\nroutes: [{models: [m]}]\n")
	cfg := configured(t, path)
	f := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v in the file, %v in the daemon", what, got, want)
		}
	}
	f("listen", cfg.Listen[0], daemon.DefaultListen)
	f("admin", cfg.Admin, daemon.DefaultAdmin)
	f("ready_timeout", cfg.ReadyTimeout, daemon.DefaultReadyTimeout)
	f("grace", cfg.Grace, daemon.DefaultGrace)
	f("close_timeout", cfg.CloseTimeout, daemon.DefaultCloseTimeout)
	f("write_stall", cfg.WriteStall, daemon.DefaultWriteStall)
	f("max_message", cfg.MaxMessage, int64(daemon.DefaultMaxMessage))
	f("max_fragments", cfg.MaxFragments, daemon.DefaultMaxFragments)
	f("max_handshakes", cfg.MaxHandshakes, daemon.DefaultMaxHandshakes)
	f("service_name", cfg.Traces.ServiceName, daemon.DefaultServiceName)
	f("descriptor_reserve", cfg.DescriptorReserve, daemon.DefaultDescriptorReserve)
	f("ping_interval", cfg.Routes[0].Upstream.PingInterval, daemon.DefaultPingInterval)
	f("pong_timeout", cfg.Routes[0].Upstream.PongTimeout, daemon.DefaultPongTimeout)
}

// The example is documentation that starts: a daemon can be made of it.
func TestTheExampleMakesADaemon(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-test-EXAMPLE")
	if _, err := os.Stat("../../rtd.example.yaml"); err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions([]string{"--config", "../../rtd.example.yaml"}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := readConfig(o, &watchedFiles{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.New(cfg); err != nil {
		t.Error(err)
	}
}
