package auth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Wish is what is asked of a new token.
type Wish struct {
	// Model is the one model the token is for. Required.
	Model string
	// Preset is what its sessions are configured with, by name, and nothing else. "": what its client chooses.
	Preset string
	// Origin is the one Origin it is for. "": any that may connect.
	Origin string
	// TTL is how long it opens sessions, in whole seconds; 0: Tokens.DefaultTTL.
	TTL time.Duration
	// Uses is how many sessions it opens, at most MaxUses; 0: one.
	Uses int
}

// Minted is a new token. Value is a secret.
type Minted struct {
	Value     string
	Key       string // name; "" for none
	ExpiresAt time.Time
}

// Mint makes a token for a client that was identified. It counts as a connect of the client's key. Errors are *DeniedError.
func (a *Auth) Mint(id Identity, wish Wish, now time.Time) (Minted, error) {
	if id.passThrough || id.token != nil {
		return Minted{}, &DeniedError{Reason: ReasonTokenUnusable, Key: id.KeyName()}
	}
	if id.key != nil {
		if wait := a.accounts.connect(id.key, now); wait > 0 {
			return Minted{}, &DeniedError{Reason: ReasonRate, Key: id.KeyName(), RetryAfter: wait}
		}
	}
	return a.mint(id.key, wish, now)
}

// MintFor makes a token in the name of a key, for an operator who need not have it. The name may be "" when there is only
// one key, or none. Errors are *DeniedError.
func (a *Auth) MintFor(name string, wish Wish, now time.Time) (Minted, error) {
	keys := a.cfg.Keys
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
	switch {
	case i >= 0:
		if keys[i].expired(now) {
			return Minted{}, &DeniedError{Reason: ReasonKeyExpired, Key: name}
		}
		return a.mint(&keys[i], wish, now)
	case name != "":
		return Minted{}, mintDenied(name, "there is no such key; there are: %s", cmp.Or(a.keyNames(), "none"))
	case len(keys) == 1:
		return a.MintFor(keys[0].Name, wish, now)
	case len(keys) == 0 && a.cfg.PassThrough:
		return Minted{}, &DeniedError{Reason: ReasonTokenUnusable, Detail: "all clients bring their own credential; configure a client key to mint with"}
	case len(keys) == 0:
		return a.mint(nil, wish, now)
	}
	return Minted{}, mintDenied("", "there are several client keys; name the one it is for (rtctl: --key): %s", a.keyNames())
}

func (a *Auth) keyNames() string {
	var names []string
	for _, k := range a.cfg.Keys {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func mintDenied(key, format string, args ...any) *DeniedError {
	return &DeniedError{Reason: ReasonMint, Key: key, Detail: fmt.Sprintf(format, args...)}
}

func (a *Auth) mint(k *Key, wish Wish, now time.Time) (Minted, error) {
	c := claims{ID: newTokenID(), Model: wish.Model, Preset: wish.Preset, Origin: wish.Origin, Uses: uint32(max(1, wish.Uses)), Issued: now.Unix()}
	if k != nil {
		c.Key, c.Mark = k.Name, a.signer.mark(k.Digest)
	}
	if !k.allows(wish.Model) {
		return Minted{}, &DeniedError{Reason: ReasonModel, Key: c.Key}
	}
	most := a.cfg.Tokens.MaxTTL
	ttl := wish.TTL
	if ttl == 0 {
		ttl = a.cfg.Tokens.DefaultTTL
	}
	switch {
	case !isClaim(wish.Model) || wish.Model == "":
		return Minted{}, mintDenied(c.Key, "the model's name must be 1 to %d bytes of printable text", maxClaim)
	case !isClaim(wish.Preset):
		return Minted{}, mintDenied(c.Key, "the preset's name must be at most %d bytes of printable text", maxClaim)
	case !isClaim(wish.Origin):
		return Minted{}, mintDenied(c.Key, "the origin must be at most %d bytes of printable text", maxClaim)
	case wish.Uses < 0 || wish.Uses > MaxUses:
		return Minted{}, mintDenied(c.Key, "a token cannot be for %d uses; ask for 1 to %d", wish.Uses, MaxUses)
	case ttl < time.Second || ttl > most:
		return Minted{}, mintDenied(c.Key, "a token cannot live for %v; ask for 1s to %v", ttl, most)
	}
	expires := now.Add(ttl).Truncate(time.Second)
	if k != nil && !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(expires) {
		expires = k.ExpiresAt.Truncate(time.Second)
	}
	c.Ends = expires.Unix()
	token, err := a.signer.sign(c)
	if err != nil {
		return Minted{}, mintDenied(c.Key, "%v", err)
	}
	return Minted{token, c.Key, time.Unix(c.Ends, 0)}, nil
}

// isClaim keeps a token within maxToken.
func isClaim(s string) bool {
	return len(s) <= maxClaim && utf8.ValidString(s) && !slices.ContainsFunc([]rune(s), func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}
