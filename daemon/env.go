package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/pool"
)

// openAIBase is where the `openai` dialect goes unless told otherwise.
const openAIBase = "wss://api.openai.com/v1"

// DefaultModel is the model served when none is named.
const DefaultModel = "gpt-realtime"

// masterKey names the client key of LITELLM_MASTER_KEY.
const masterKey = "master"

// FromEnv returns the configuration that the environment alone describes: one route to OpenAI. It reads OPENAI_API_KEY,
// OPENAI_REALTIME_MODEL, REALTIME_POOL_SIZE, REALTIME_POOL_MAX_IDLE_SECS, HOST, PORT and LITELLM_MASTER_KEY, and
// reports every fault at once.
func FromEnv(getenv func(string) string) (Config, error) {
	size, sizeErr := envInt(getenv, "REALTIME_POOL_SIZE", DefaultPoolSize)
	idle, idleErr := envInt(getenv, "REALTIME_POOL_MAX_IDLE_SECS", 0)
	port, portErr := envInt(getenv, "PORT", 4001)
	if portErr == nil && port > 65535 {
		portErr = fmt.Errorf("PORT: %d is above 65535", port)
	}
	if err := errors.Join(sizeErr, idleErr, portErr); err != nil {
		return Config{}, err
	}
	base, err := url.Parse(openAIBase)
	if err != nil {
		return Config{}, err
	}
	cfg := Config{
		Listen: []string{net.JoinHostPort(orDefault(getenv("HOST"), "127.0.0.1"), strconv.Itoa(port))},
		Routes: []Route{{
			Models: []string{orDefault(getenv("OPENAI_REALTIME_MODEL"), DefaultModel)},
			Upstream: Upstream{Upstream: dialect.Upstream{
				Dialect:    "openai",
				Name:       "openai",
				BaseURL:    base,
				Credential: getenv("OPENAI_API_KEY"),
			}},
			Pool: pool.Config{Size: size, MaxIdle: time.Duration(idle) * time.Second},
		}},
	}
	if key := getenv("LITELLM_MASTER_KEY"); key != "" {
		cfg.Auth.Keys = []auth.Key{{Name: masterKey, Digest: auth.DigestOf(key)}}
	}
	return cfg, nil
}

// envInt reads a whole number of at least 0; unset is def.
func envInt(getenv func(string) string, name string, def int) (int, error) {
	v := getenv(name)
	if v == "" {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q is not a whole number of at least 0", name, v)
	}
	return n, nil
}
