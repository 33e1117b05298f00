package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/redact"
	"github.com/rtd-project/rtd/pool"
)

const (
	// maxOwnPools bounds the pools of clients' own credentials; clients beyond are dialled for one by one.
	maxOwnPools = 64
	// ownPoolIdle is how long such a pool outlives its last client.
	ownPoolIdle = 5 * time.Minute
	// maxOwnCredential bounds a credential that is passed through, in bytes, so that each can be hidden in the log.
	maxOwnCredential = 1 << 10
)

var (
	errOwnRefused = &refusal{http.StatusUnauthorized, "invalid_api_key", "the upstream refused the API key", 0}
	errOwnTooLong = &refusal{http.StatusUnauthorized, "invalid_api_key", "the API key is too long to be one", 0}
)

// ownPools are the pools of credentials that clients brought along. One is made when the first session of its credential
// got ready, which proves the credential, and removed when no client came for a while or the upstream refuses it.
type ownPools struct {
	mu   sync.Mutex
	all  map[string]*ownPool // by target key
	idle time.Duration       // ownPoolIdle but in tests
}

type ownPool struct {
	used   time.Time
	hidden *redact.Hidden // the credential, for what its idle sessions may say
}

// use returns the pool of a target, nil for none, and keeps it from being removed for now.
func (o *ownPools) use(set *pool.Set, key string, now time.Time) *pool.Pool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.all[key]
	if own == nil {
		return nil
	}
	own.used = now
	return set.Get(key) // nil after a reload
}

// ownUpstream is u for a client with an account of its own.
func ownUpstream(u dialect.Upstream, ask dialect.Ask) dialect.Upstream {
	u.Credential = ask.Credential.Reveal()
	u.Organization = ask.Header.Get("Openai-Organization")
	u.Project = ask.Header.Get("Openai-Project")
	u.SafetyIdentifier = ask.Header.Get("Openai-Safety-Identifier")
	return u
}

// ownTarget renders what a client with an account of its own asks of a route. Whoever minted a client secret has said what
// its session is like, so that it gets no preset but by name.
func (r *route) ownTarget(ask dialect.Ask) (dialect.Target, error) {
	u := ownUpstream(r.endpoint.Upstream.Upstream, ask)
	if ask.Credential.IsClientSecret() && ask.Preset == "" {
		return r.endpoint.dialect.Target(u, ask)
	}
	return r.targetOf(u, ask)
}

// connectOwn is connect for a client whose own credential goes upstream.
func (s *session) connectOwn(ctx context.Context, ask dialect.Ask, adopt func(*session) error) error {
	target, err := s.route.ownTarget(ask)
	if err != nil {
		return err
	}
	target.Key = "own-" + target.Key // a client that knows the gateway's own key does not get at the gateway's pool
	if ask.Credential.IsClientSecret() {
		target.Bypass = orDefault(target.Bypass, "a client secret of the provider")
	}
	if target.Bypass != "" {
		return s.ownError(target.Key, s.bypass(ctx, target, adopt))
	}
	if s.pool = s.daemon.own.use(s.daemon.pools, target.Key, time.Now()); s.pool != nil {
		return s.ownError(target.Key, s.take(ctx, adopt))
	}
	target.Bypass = "the client's own key, before it is known to be good"
	if err := s.bypass(ctx, target, adopt); err != nil {
		return s.ownError(target.Key, err)
	}
	s.daemon.proven(s.route, target, ask)
	return nil
}

// ownError blames the client for a credential that the upstream refuses, and forgets it.
func (s *session) ownError(key string, err error) error {
	if class, _ := dialect.Classify(err); err == nil || class != dialect.ClassAuth {
		return err
	}
	s.daemon.removeOwn(key)
	return errors.Join(errOwnRefused, err)
}

// proven makes the pool of a credential that opened a session. Until a dial needs it, the credential is sealed.
func (d *Daemon) proven(r *route, target dialect.Target, ask dialect.Ask) {
	secret, up := auth.Seal(ask.Credential.Reveal()), ownUpstream(r.endpoint.Upstream.Upstream, ask)
	up.Credential = ""
	up.Organization, up.Project, up.SafetyIdentifier = strings.Clone(up.Organization), strings.Clone(up.Project), strings.Clone(up.SafetyIdentifier)
	plain := dialect.Ask{Model: strings.Clone(ask.Model), Intent: ask.Intent}
	named := dialect.Target{Key: target.Key, Name: target.Name + "/own", URL: target.URL, Preset: target.Preset}
	dial := func(ctx context.Context, life pool.Lifeline) (pool.Conn, error) {
		up := up
		up.Credential = secret.Open()
		t, err := r.endpoint.dialect.Target(up, plain)
		if err != nil {
			return nil, err
		}
		w, err := r.endpoint.dial(ctx, t.With(named.Preset), life)
		if err != nil {
			return nil, err // a typed nil would look like a session
		}
		return w, nil
	}
	d.own.mu.Lock()
	defer d.own.mu.Unlock()
	if d.own.all[target.Key] == nil {
		if len(d.own.all) >= maxOwnPools {
			return
		}
		if d.own.all == nil {
			d.own.all = map[string]*ownPool{}
		}
		d.own.all[target.Key] = &ownPool{hidden: d.redact.Hide(ask.Credential.Reveal())}
	}
	d.own.all[target.Key].used = time.Now()
	if err := r.createOwnPool(d.pools, named, dial); err != nil {
		d.log.Debug("no pool for a client's own key", "pool", named.Name, "error", err)
	}
}

// createOwnPool makes a pool with a dial of its own, unless a reload has retired the route.
func (r *route) createOwnPool(set *pool.Set, target dialect.Target, dial pool.DialFunc) error {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	if r.in.retired {
		return pool.ErrClosed
	}
	r.serve(dialect.Ask{}, target)
	cfg := r.poolConfig(target)
	cfg.Dial = dial
	_, err := set.GetOrCreate(cfg)
	return err
}

// removeIdleOwn removes the pools that no client has used for a while, and forgets those that a reload removed.
func (d *Daemon) removeIdleOwn(now time.Time) {
	var idle []string
	d.own.mu.Lock()
	for key, own := range d.own.all {
		if now.Sub(own.used) >= d.own.idle || d.pools.Get(key) == nil {
			idle = append(idle, key)
		}
	}
	d.own.mu.Unlock()
	for _, key := range idle {
		d.removeOwn(key)
	}
}

// removeOwn removes the pool of a client's own credential, if there is one.
func (d *Daemon) removeOwn(key string) {
	d.own.mu.Lock()
	own := d.own.all[key]
	delete(d.own.all, key)
	d.own.mu.Unlock()
	if own == nil {
		return
	}
	d.pools.Remove(key)
	d.targets.Delete(key)
	own.hidden.Release()
}
