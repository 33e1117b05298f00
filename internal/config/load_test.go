package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// plain is the least file that loads.
const plain = `upstreams:
  - name: openai
    provider: openai
    api_key_env: OPENAI_API_KEY
routes:
  - models: [gpt-realtime]
`

// loadText loads a file of that text, called rtd.yaml.
func loadText(text string, environ ...string) (*Config, error) {
	return load(Options{Path: "rtd.yaml", Environ: environ}, []byte(text))
}

func mustLoad(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := loadText(text, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// value is what is in force for a key.
func value(t *testing.T, c *Config, key string) Value {
	t.Helper()
	for _, v := range c.Values() {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("there is no key %s", key)
	return Value{}
}

func TestTheLeastFile(t *testing.T) {
	c := mustLoad(t, plain)
	if c.Path != "rtd.yaml" || len(c.Upstreams) != 1 || len(c.Routes) != 1 || c.Routes[0].Upstream != "openai" {
		t.Errorf("%+v", c.File)
	}
	want := Pool{
		Size: 8, MaxSize: 4096, MaxDialing: 16, DialTimeout: 10 * time.Second, Probation: 5 * time.Second,
		BackoffMin: 250 * time.Millisecond, BackoffMax: 15 * time.Second, AuthBackoff: time.Minute,
	}
	if c.Routes[0].Pool != want {
		t.Errorf("%+v", c.Routes[0].Pool)
	}
	if !slices.Equal(c.Listen, []string{"127.0.0.1:4001"}) || c.Limits.MaxMessage != 32<<20 || c.Log.Level != "info" {
		t.Errorf("%+v", c.File)
	}
}

func TestEveryKindOfValue(t *testing.T) {
	c := mustLoad(t, `
listen: ["[::1]:1", localhost:0]
control: {mode: "0660", group: rtd, admin_uids: [0, 4294967294]}
upstreams:
- {name: one, provider: compatible, url: 'ws://127.0.0.1:8000/v1?x=y', beta: true, ping_interval: 1m30s}
- {name: two, provider: compatible, url: wss://example.com}
routes:
- models:
  - a
  - "5"
  upstream: two
  pool: {size: 0, max_idle: 1.5s}
clients:
  keys:
  - {name: k, key_file: /run/k, connects_per_second: 0.5, expires_at: 2030-01-31T12:00:00+01:00}
limits: {memory_soft_limit: 2GiB}
log:
  level: debug # a comment
`)
	f := func(key, want string) {
		t.Helper()
		if got := value(t, c, key); got.Value != want || got.Origin.File != "rtd.yaml" || got.Origin.Line == 0 {
			t.Errorf("%s is %q from %s, want %q", key, got.Value, got.Origin, want)
		}
	}
	f("listen", "[::1]:1,localhost:0")
	f("control.mode", "0660")
	f("control.admin_uids", "0,4294967294")
	f("upstreams[0].url", "ws://127.0.0.1:8000/v1?x=y")
	f("upstreams[0].beta", "true")
	f("upstreams[0].ping_interval", "1m30s")
	f("routes[0].models", "a,5")
	f("routes[0].pool.size", "0")
	f("routes[0].pool.max_idle", "1.5s")
	f("clients.keys[0].connects_per_second", "0.5")
	f("clients.keys[0].expires_at", "2030-01-31T12:00:00+01:00")
	f("limits.memory_soft_limit", "2GiB")
	f("log.level", "debug")
	if c.Control.Mode != 0o660 || c.Limits.MemorySoftLimit != 2<<30 {
		t.Errorf("%v, %d", c.Control.Mode, c.Limits.MemorySoftLimit)
	}
}

func TestAByteOrderMarkAndCarriageReturns(t *testing.T) {
	mustLoad(t, "\ufeff"+strings.ReplaceAll(plain, "\n", "\r\n"))
}

func TestAFileThatCannotBeRead(t *testing.T) {
	if _, err := Load(Options{Path: filepath.Join(t.TempDir(), "none.yaml")}); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	long := filepath.Join(t.TempDir(), "long.yaml")
	if err := os.WriteFile(long, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Path: long}); err == nil || !strings.Contains(err.Error(), "1MiB") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(long, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Options{Path: long}); err != nil || c.Path != long {
		t.Errorf("%v", err)
	}
}

func TestTheEnvironmentOverridesTheFile(t *testing.T) {
	c := mustLoad(t, plain+"log: {level: warn}\n",
		"RTD_LOG_LEVEL=debug", "RTD_ROUTES_0_POOL_SIZE=3", "RTD_ROUTES_0_MODELS=a, b", "RTD_SOCKET=/tmp/x.sock", "RTD_ADMIN=",
		"RTD_UPSTREAMS_1_NAME=second", "RTD_UPSTREAMS_1_PROVIDER=compatible", "RTD_UPSTREAMS_1_URL=wss://example.com/v1",
		"RTD_ROUTES_0_UPSTREAM=second", "RTD_CONTROL_ADMIN_UIDS=1,2", "RTD_UPSTREAMS_0_API_KEY_FILE=/run/key",
		"RTD_SERVICE_HOST=10.0.0.1", "RTD_PORT=tcp://10.0.0.1:4001", "HOST=0.0.0.0", "PORT=1")
	f := func(key, want, from string) {
		t.Helper()
		if got := value(t, c, key); got.Value != want || got.Origin.String() != from {
			t.Errorf("%s is %q from %s, want %q from %s", key, got.Value, got.Origin, want, from)
		}
	}
	f("log.level", "debug", "RTD_LOG_LEVEL")
	f("routes[0].pool.size", "3", "RTD_ROUTES_0_POOL_SIZE")
	f("routes[0].models", "a,b", "RTD_ROUTES_0_MODELS")
	f("control.socket", "/tmp/x.sock", "RTD_SOCKET")
	f("control.admin_uids", "1,2", "RTD_CONTROL_ADMIN_UIDS")
	f("admin", "127.0.0.1:4002", "default")
	f("listen", "127.0.0.1:4001", "default")
	f("upstreams[1].url", "wss://example.com/v1", "RTD_UPSTREAMS_1_URL")
	f("upstreams[0].api_key_file", "/run/key", "RTD_UPSTREAMS_0_API_KEY_FILE")
	f("upstreams[0].api_key_env", "", "default")
}

func TestFlagsOverrideTheEnvironment(t *testing.T) {
	c, err := load(Options{Path: "rtd.yaml", Environ: []string{"RTD_LOG_LEVEL=debug", "RTD_UPSTREAMS_0_API_KEY_FILE=/run/key"}, Flags: []Override{
		{Key: "log.level", Values: []string{"trace"}, Flag: "--log-level"},
		{Key: "listen", Values: []string{"127.0.0.1:1", "127.0.0.1:2"}, Flag: "--listen"},
		{Key: "upstreams[0].api_key_env", Values: []string{"KEY"}, Flag: "--api-key-env"},
	}}, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if v := value(t, c, "log.level"); v.Value != "trace" || v.Origin.String() != "--log-level" {
		t.Errorf("%+v", v)
	}
	if len(c.Listen) != 2 || c.Upstreams[0].APIKey != (Secret{Env: "KEY"}) {
		t.Errorf("%q, %+v", c.Listen, c.Upstreams[0].APIKey)
	}
}

func TestAFlagForOneOfSeveral(t *testing.T) {
	_, err := load(Options{Path: "rtd.yaml", Flags: []Override{{Key: "routes[0].pool.size", Values: []string{"1"}, Flag: "--pool-size"}}},
		[]byte(plain+"  - models: [other]\n"))
	if err == nil || err.Error() != "--pool-size: there are 2 routes, and a flag cannot say which it means; say it in the file" {
		t.Errorf("%v", err)
	}
}

func TestAPlainStart(t *testing.T) {
	c, err := Load(Options{Environ: []string{
		"OPENAI_API_KEY=sk-test-PLAIN", "OPENAI_REALTIME_MODEL=m", "REALTIME_POOL_SIZE=3", "REALTIME_POOL_MAX_IDLE_SECS=30",
		"HOST=0.0.0.0", "PORT=81", "LITELLM_MASTER_KEY=sk-test-MASTER", "RTD_LOG_LEVEL=warn",
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := func(key, want, from string) {
		t.Helper()
		if got := value(t, c, key); got.Value != want || got.Origin.String() != from {
			t.Errorf("%s is %q from %s, want %q from %s", key, got.Value, got.Origin, want, from)
		}
	}
	f("routes[0].models", "m", "OPENAI_REALTIME_MODEL")
	f("routes[0].pool.size", "3", "REALTIME_POOL_SIZE")
	f("routes[0].pool.max_idle", "30s", "REALTIME_POOL_MAX_IDLE_SECS")
	f("listen", "0.0.0.0:81", "HOST")
	f("log.level", "warn", "RTD_LOG_LEVEL")
	if c.Upstreams[0].APIKey.Env != "OPENAI_API_KEY" || len(c.Clients.Keys) != 1 || c.Clients.Keys[0].Name != "master" {
		t.Errorf("%+v, %+v", c.Upstreams, c.Clients)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Value+v.Note+v.Origin.String(), "sk-test-") {
			t.Errorf("%+v shows a secret", v)
		}
	}

	c, err = Load(Options{Environ: []string{"OPENAI_API_KEY=sk-test-PLAIN", "REALTIME_POOL_MAX_IDLE_SECS=0", "PORT=82"}})
	if err != nil || !slices.Equal(c.Listen, []string{"127.0.0.1:82"}) || c.Routes[0].Pool.MaxIdle != 0 || c.Routes[0].Models[0] != DefaultModel {
		t.Errorf("%v, %+v", err, c)
	}

	other := []Override{
		{Key: "upstreams[0].provider", Values: []string{"compatible"}, Flag: "--provider"},
		{Key: "upstreams[0].url", Values: []string{"ws://example.com/v1"}, Flag: "--upstream"},
	}
	c, err = Load(Options{Environ: []string{"OPENAI_API_KEY=sk-test-PLAIN"}, Flags: other})
	if err != nil || c.Upstreams[0].APIKey.IsSet() {
		t.Errorf("%v: the key of OpenAI is not for another upstream", err)
	}
}

func TestAPlainStartThatCannotBe(t *testing.T) {
	f := func(want string, environ ...string) {
		t.Helper()
		_, err := Load(Options{Environ: environ})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", environ, err, want)
		}
	}
	key := "OPENAI_API_KEY=sk-test-PLAIN"
	f("no upstream key: set OPENAI_API_KEY, or try rtd --dev")
	f(`PORT: listen: "70000" is no port between 0 and 65535`, key, "PORT=70000")
	f(`PORT: listen: "x" is no port between 0 and 65535`, key, "PORT=x")
	f(`REALTIME_POOL_SIZE: routes[0].pool.size: "many" is not a whole number between 0 and 1000000`, key, "REALTIME_POOL_SIZE=many")
	f(`REALTIME_POOL_MAX_IDLE_SECS: routes[0].pool.max_idle: "-1" is no whole number of seconds`, key, "REALTIME_POOL_MAX_IDLE_SECS=-1")
	f(`HOST: listen[0]: "0.0.0.0:4001" is reachable from other hosts while there is no client key; use a loopback address or add one to clients.keys`, key, "HOST=0.0.0.0")
	f(`RTD_LOG_LEVL: no key has this variable; did you mean RTD_LOG_LEVEL?`, key, "RTD_LOG_LEVL=info")
	f(`RTD_ROUTES_2_UPSTREAM: routes: there is no item 2; the next to add is RTD_ROUTES_1_…`, key, "RTD_ROUTES_2_UPSTREAM=openai")
}

// The table of a file's values and the file's own fields are one thing: nothing may be forgotten in either.
func TestEveryFieldHasAKey(t *testing.T) {
	f := oneOfEach()
	var keys int
	walk(f.keys(), "", func(string, key) { keys++ })
	if fields := countFields(reflect.TypeOf(*f)); keys != fields {
		t.Errorf("%d keys for %d fields", keys, fields)
	}
}

func countFields(t reflect.Type) (n int) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return 1
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return countFields(t.Elem())
	case t.Kind() != reflect.Struct:
		return 1
	}
	for i := range t.NumField() {
		n += countFields(t.Field(i).Type)
	}
	return n
}
