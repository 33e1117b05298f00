package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Auth judges clients by one configuration. It is immutable but for what it counts, which it shares with the Auth it was
// made from (With). It is safe for concurrent use.
type Auth struct {
	cfg    Config // with defaults
	signer signer
	*memory
}

// memory outlives reloads.
type memory struct {
	random   []byte // the secret of this process
	uses     uses
	accounts accounts
	anyone   account // clients without a key of the gateway
}

// New returns the judge of cfg.
func New(cfg Config) (*Auth, error) {
	m := &memory{random: make([]byte, MinSecret), uses: uses{limit: maxTokensInUse, used: map[tokenID]use{}}, accounts: accounts{all: map[Digest]*account{}}}
	rand.Read(m.random) // never fails
	return (&Auth{memory: m}).With(cfg)
}

// With returns the judge of another configuration that goes on with what a counted: open sessions, connects and used
// tokens. a itself stays as it is.
func (a *Auth) With(cfg Config) (*Auth, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	next := &Auth{cfg: cfg, memory: a.memory, signer: signer{cfg.Tokens.Secret}}
	if len(cfg.Tokens.Secret) == 0 {
		next.signer.secret = a.random
	}
	a.accounts.forget(cfg.Keys, time.Now())
	return next, nil
}

// Open reports whether no key is asked of clients.
func (a *Auth) Open() bool { return a.cfg.Open() && !a.cfg.PassThrough }

// PassesAll reports whether every client brings the credential that goes upstream, so that the gateway's own is never used.
func (a *Auth) PassesAll() bool { return a.cfg.Open() && a.cfg.PassThrough }

// Identity is who a client is. Make it with Identify.
type Identity struct {
	key         *Key // nil: none of the gateway's
	token       *claims
	passThrough bool
}

// KeyName is the name of the client's key, "" when it has none.
func (id Identity) KeyName() string {
	if id.key == nil {
		return ""
	}
	return id.key.Name
}

// PassThrough reports whether the client's own credential is to go upstream.
func (id Identity) PassThrough() bool { return id.passThrough }

// Preset is the name of the preset that the client's token is for, "" for none.
func (id Identity) Preset() string {
	if id.token == nil {
		return ""
	}
	return id.token.Preset
}

// Identify says whose credential this is; "" is none. Errors are *DeniedError.
func (a *Auth) Identify(credential string, now time.Time) (Identity, error) {
	return a.identify(credential, a.cfg.PassThrough, now)
}

// IdentifyOwn is Identify where a credential that is none of the gateway's may go upstream, as with Config.PassThrough.
func (a *Auth) IdentifyOwn(credential string, now time.Time) (Identity, error) {
	return a.identify(credential, true, now)
}

func (a *Auth) identify(credential string, passes bool, now time.Time) (Identity, error) {
	if n := len(TokenPrefix); len(credential) >= n && strings.EqualFold(credential[:n], TokenPrefix) { // never upstream, however it is written
		return a.identifyToken(credential, now)
	}
	if a.cfg.Open() && !passes {
		return Identity{}, nil
	}
	if credential == "" {
		return Identity{}, &DeniedError{Reason: ReasonNoCredential}
	}
	k := a.find(DigestOf(credential))
	switch {
	case k != nil && k.expired(now):
		return Identity{}, &DeniedError{Reason: ReasonKeyExpired, Key: k.Name}
	case k != nil:
		return Identity{key: k}, nil
	case passes:
		return Identity{passThrough: true}, nil
	}
	return Identity{}, &DeniedError{Reason: ReasonUnknownKey}
}

// find compares with every key each time, so that how long it takes tells nothing.
func (a *Auth) find(d Digest) *Key {
	at := -1
	for i := range a.cfg.Keys {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(a.cfg.Keys[i].Digest[:], d[:]), i, at)
	}
	if at < 0 {
		return nil
	}
	return &a.cfg.Keys[at]
}

func (k *Key) expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// allows reports whether the key is for a model; "" is a session that names none.
func (k *Key) allows(model string) bool {
	return k == nil || len(k.Models) == 0 || slices.Contains(k.Models, model)
}

func (a *Auth) identifyToken(token string, now time.Time) (Identity, error) {
	c, ok := a.signer.read(token)
	if !ok {
		return Identity{}, &DeniedError{Reason: ReasonTokenInvalid}
	}
	id := Identity{token: &c}
	if c.Key != "" || !a.Open() { // where all bring their own credential, one without a key would use the gateway's
		i := slices.IndexFunc(a.cfg.Keys, func(k Key) bool { return k.Name == c.Key })
		if i < 0 || subtle.ConstantTimeCompare(a.signer.mark(a.cfg.Keys[i].Digest), c.Mark) == 0 {
			return Identity{}, &DeniedError{Reason: ReasonTokenInvalid, Key: c.Key, Detail: "its key is gone"}
		}
		id.key = &a.cfg.Keys[i]
		if id.key.expired(now) {
			return Identity{}, &DeniedError{Reason: ReasonKeyExpired, Key: c.Key}
		}
	}
	if r := c.timely(now, a.cfg.Tokens.MaxTTL+time.Second); r != granted {
		return Identity{}, &DeniedError{Reason: r, Key: c.Key}
	}
	return id, nil
}

// Admission is what a client that was identified wants.
type Admission struct {
	Model  string // "": a session that names none
	Preset string // name; "": none is chosen
	Origin string // "": none was sent
}

// Grant is a session that may be opened.
type Grant struct {
	account  *account
	uses     *uses // nil: no token
	token    tokenID
	released atomic.Bool
}

// Admit counts a new session against the limits of its client. The Grant counts until Release. Errors are *DeniedError.
func (a *Auth) Admit(id Identity, want Admission, now time.Time) (*Grant, error) {
	denied := func(r Reason, detail string, after time.Duration) (*Grant, error) {
		return nil, &DeniedError{Reason: r, Key: id.KeyName(), Detail: detail, RetryAfter: after}
	}
	if !id.key.allows(want.Model) {
		return denied(ReasonModel, "", 0)
	}
	if t := id.token; t != nil {
		if t.Model != "" && t.Model != want.Model {
			return denied(ReasonModel, "", 0)
		}
		if t.Preset != "" && t.Preset != want.Preset {
			return denied(ReasonPreset, "", 0)
		}
		if t.Origin != "" && t.Origin != want.Origin {
			return denied(ReasonOrigin, "", 0)
		}
	}
	g := &Grant{account: &a.anyone}
	if id.key == nil {
		g.account.sessions.Add(1)
	} else {
		account, r, wait := a.accounts.enter(id.key, now)
		if r != granted {
			return denied(r, "", wait)
		}
		g.account = account
	}
	if t := id.token; t != nil {
		if r := a.uses.reserve(now, tokenID(t.ID), t.Uses, t.ends().Add(skew)); r != granted {
			g.account.sessions.Add(-1)
			return denied(r, "", retryAfter[r])
		}
		g.uses, g.token = &a.uses, tokenID(t.ID)
	}
	return g, nil
}

// What a client is told to wait when nobody knows.
const sessionsRetryAfter = 5 * time.Second

var retryAfter = map[Reason]time.Duration{ReasonTokenLoad: sessionsRetryAfter}

// Release ends the session, or the attempt at one. opened says that there was one: then a use of its token is spent.
// Only the first call counts.
func (g *Grant) Release(opened bool) {
	if !g.released.CompareAndSwap(false, true) {
		return
	}
	g.account.sessions.Add(-1)
	if g.uses != nil && !opened {
		g.uses.giveBack(g.token)
	}
}
