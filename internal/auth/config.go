package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Defaults and bounds of Config.
const (
	DefaultTTL = 10 * time.Minute
	MaxTTL     = 2 * time.Hour
	// MinSecret is the least length of a token secret, in bytes.
	MinSecret = 32

	maxName  = 64
	minRate  = 0.001
	maxRate  = 1e6
	maxBurst = 1_000_000
)

// Digest is the SHA-256 of a client key: all that is kept of it.
type Digest [sha256.Size]byte

// DigestOf digests a key.
func DigestOf(key string) Digest { return sha256.Sum256([]byte(key)) }

// ParseDigest reads the 64 hexadecimal digits that sha256sum prints.
func ParseDigest(s string) (d Digest, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("a SHA-256 digest is %d hexadecimal digits; this has %d characters", 2*len(d), len(s))
	}
	return Digest(b), nil
}

// Key is what one client may do.
type Key struct {
	// Name is what people and logs call the key: at most 64 visible ASCII characters, unique, nothing secret.
	Name   string
	Digest Digest
	// Models are the names the key may ask for. Empty: all that have a route, and sessions that name no model.
	Models []string
	// MaxSessions bounds the sessions open at a time. 0: no bound.
	MaxSessions int
	// ConnectsPerSecond bounds new sessions and minted tokens, at least 0.001; Burst of them may come at once.
	// 0: no bound. Burst defaults to ConnectsPerSecond, rounded up.
	ConnectsPerSecond float64
	Burst             int
	// ExpiresAt is when the key ends. Zero: never.
	ExpiresAt time.Time
}

// Tokens configures the short-lived tokens that keys mint for browsers.
type Tokens struct {
	// Secret signs them; at least MinSecret bytes. Empty: a random one of this process, so that tokens end with it and
	// no other instance takes them.
	Secret []byte
	// DefaultTTL is the life of a token that asks for none; default 10 min, or MaxTTL if that is less. MaxTTL bounds
	// what can be asked for; default 2 h.
	DefaultTTL, MaxTTL time.Duration
}

// Config is who is let in. The zero value lets in everybody.
type Config struct {
	Keys []Key
	// PassThrough sends a credential that is none of Keys upstream, in place of the gateway's own.
	PassThrough bool
	Tokens      Tokens
}

// Open reports whether no key is asked of clients: they may then come from this host only.
func (c Config) Open() bool { return len(c.Keys) == 0 }

func (c Config) withDefaults() Config {
	c.Keys = slices.Clone(c.Keys)
	for i := range c.Keys {
		if k := &c.Keys[i]; k.Burst == 0 {
			k.Burst = max(1, int(k.ConnectsPerSecond+0.999))
		}
	}
	t := &c.Tokens
	if t.MaxTTL == 0 {
		t.MaxTTL = MaxTTL
	}
	if t.DefaultTTL == 0 {
		t.DefaultTTL = min(DefaultTTL, t.MaxTTL)
	}
	return c
}

// Validate reports every fault, one line each.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	names, digests := map[string]bool{}, map[Digest]string{}
	for i, k := range c.Keys {
		if !isName(k.Name) {
			fault("client key %d: its name must be 1 to %d visible ASCII characters", i+1, maxName)
			continue
		}
		if names[k.Name] {
			fault("client key %q: another key has this name; give each its own", k.Name)
		}
		names[k.Name] = true
		if other, ok := digests[k.Digest]; ok {
			fault("client key %q: it is the same key as %q; remove one", k.Name, other)
		}
		digests[k.Digest] = k.Name
		if k.Digest == (Digest{}) || k.Digest == DigestOf("") {
			fault("client key %q: it is empty; give it a key or a digest", k.Name)
		}
		if k.MaxSessions < 0 {
			fault("client key %q: max_sessions %d is negative; use 0 for no bound", k.Name, k.MaxSessions)
		}
		if r := k.ConnectsPerSecond; r != 0 && !(r >= minRate && r <= maxRate) {
			fault("client key %q: connects_per_second %v is not between %v and %v; use 0 for no bound", k.Name, r, minRate, float64(maxRate))
		}
		if k.Burst < 0 || k.Burst > maxBurst {
			fault("client key %q: burst %d is not between 1 and %d", k.Name, k.Burst, maxBurst)
		}
		if slices.Contains(k.Models, "") {
			fault("client key %q: models holds an empty name", k.Name)
		}
	}
	faults = append(faults, c.withDefaults().Tokens.validate())
	return errors.Join(faults...)
}

func (t Tokens) validate() error {
	var faults []error
	if n := len(t.Secret); n > 0 && n < MinSecret {
		faults = append(faults, fmt.Errorf("tokens: the secret has %d bytes; use at least %d random ones", n, MinSecret))
	}
	if t.MaxTTL < time.Second {
		faults = append(faults, fmt.Errorf("tokens: max_ttl %v is less than 1s", t.MaxTTL))
	} else if t.DefaultTTL < time.Second || t.DefaultTTL > t.MaxTTL {
		faults = append(faults, fmt.Errorf("tokens: default_ttl %v is not between 1s and max_ttl, %v", t.DefaultTTL, t.MaxTTL))
	}
	return errors.Join(faults...)
}

func isName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}
