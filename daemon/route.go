package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/pool"
)

// route is a Route at work: its endpoint and, per target, the pool that serves it.
type route struct {
	models   []string
	preset   *dialect.Preset // of sessions whose client names none; nil for none
	endpoint *endpoint
	pool     pool.Config
	in       *routes
	// clientSecrets: see Route.AllowClientSecrets.
	clientSecrets bool
}

// routes finds the route of a request. It is built once and read by every accept.
type routes struct {
	byModel map[string]*route
	presets map[string]*dialect.Preset
	unused  bool      // every client brings its own credential: nobody would take what is warm
	first   *route    // serves what names no model: call_id and intent=transcription
	served  *sync.Map // the daemon's: pool key → served
	log     *poolLog  // the daemon's

	mu      sync.Mutex // held while a client's request makes a pool
	retired bool       // others took over: make no more pools
}

// served is what a pool was last told to be.
type served struct {
	route  *route
	ask    dialect.Ask // what it was made for; zero for a client's own credential
	url    string      // for people; holds no credential
	preset string      // name, "" for none
	size   int         // as configured; an operator may have changed it
}

func (d *Daemon) newRoutes(cfg Config) (*routes, error) {
	rs := &routes{byModel: map[string]*route{}, served: &d.targets, log: d.poolLog}
	var faults []error
	rs.presets, _ = cfg.presets() // validated with the configuration
	for _, c := range cfg.Routes {
		r := &route{models: c.Models, preset: rs.presets[c.Preset], pool: c.Pool, in: rs, clientSecrets: c.AllowClientSecrets}
		var err error
		r.endpoint, err = d.newEndpoint(c.Upstream, cfg.Proxy)
		faults = append(faults, err)
		defaults := r.endpoint.dialect.Defaults()
		r.pool.MaxIdle = orDefault(c.Pool.MaxIdle, defaults.MaxIdle)
		r.pool.MaxAge = orDefault(c.Pool.MaxAge, defaults.MaxAge)
		r.pool.MinRemaining = orDefault(c.Pool.MinRemaining, defaults.MinRemaining)
		rs.first = orDefault(rs.first, r)
		for _, m := range c.Models {
			rs.byModel[m] = r
		}
	}
	return rs, errors.Join(faults...)
}

// find returns the route of ask and its model's name, which unlike ask's does not hold the request's memory; or a 404
// that names what there is.
func (rs *routes) find(ask dialect.Ask) (*route, string, error) {
	if ask.Model == "" {
		return rs.first, "", nil
	}
	if r, ok := rs.byModel[ask.Model]; ok {
		return r, r.models[slices.Index(r.models, ask.Model)], nil
	}
	return nil, "", &refusal{
		status:  http.StatusNotFound,
		code:    "model_not_found",
		message: fmt.Sprintf("model %.256q has no route here; known models: %s", ask.Model, strings.Join(rs.models(), ", ")),
	}
}

func (rs *routes) models() []string { return slices.Sorted(maps.Keys(rs.byModel)) }

// check renders the handshake of every model once, so that an upstream that cannot be dialled as configured is an error
// of the configuration and not of the first client. hide is given the secrets of the proxies on the way.
func (rs *routes) check(hide func(secret string)) error {
	var faults []error
	for _, model := range rs.models() {
		r := rs.byModel[model]
		t, err := r.target(model)
		if err == nil {
			err = r.endpoint.checkProxy(t.URL, hide)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// targetOf renders what is asked of a route, with its preset, against u: its own upstream, or a variant.
func (r *route) targetOf(u dialect.Upstream, ask dialect.Ask) (dialect.Target, error) {
	p, err := r.presetOf(ask)
	if err != nil {
		return dialect.Target{}, err
	}
	t, err := r.endpoint.dialect.Target(u, ask)
	return t.With(p), err
}

// target renders the handshake of a configured model.
func (r *route) target(model string) (dialect.Target, error) {
	t, err := r.targetOf(r.endpoint.Upstream.Upstream, dialect.Ask{Model: model})
	if err != nil {
		return t, fmt.Errorf("route of model %q: %w", model, err)
	}
	return t, nil
}

// served is what the pool of that key is, zero when there is none.
func (d *Daemon) served(key string) served {
	v, _ := d.targets.Load(key)
	s, _ := v.(served)
	return s
}

// warmPools creates the pool of every configured model, so that it fills before the first client comes.
func (rs *routes) warmPools(set *pool.Set) error {
	all, err := rs.targets()
	if err != nil {
		return err
	}
	for _, w := range all {
		if _, err := w.route.poolFor(set, w.ask, w.Target); err != nil {
			return fmt.Errorf("route of model %q: %w", w.ask.Model, err)
		}
	}
	return nil
}

// poolFor returns the pool of a target of this route, which ask comes to; pool.ErrClosed once a reload has retired the route and the pool.
func (r *route) poolFor(set *pool.Set, ask dialect.Ask, target dialect.Target) (*pool.Pool, error) {
	if p := set.Get(target.Key); p != nil {
		return p, nil
	}
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	if r.in.retired {
		return nil, fmt.Errorf("pool %q: gone with a reload: %w", target.Name, pool.ErrClosed)
	}
	return r.createPool(set, ask, target)
}

// retire makes every later call of poolFor find pools, and make none.
func (rs *routes) retire() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.retired = true
}

// createPool makes the pool of a target, unless there is one.
func (r *route) createPool(set *pool.Set, ask dialect.Ask, target dialect.Target) (*pool.Pool, error) {
	r.serve(ask, target)
	return set.GetOrCreate(r.poolConfig(target))
}

// serve enters what the pool of a target is told to be.
func (r *route) serve(ask dialect.Ask, target dialect.Target) {
	s := served{route: r, url: r.endpoint.redact(target.URL.Redacted()), size: r.pool.Size}
	s.ask = dialect.Ask{Model: strings.Clone(ask.Model), Intent: ask.Intent, Preset: strings.Clone(ask.Preset)} // not the request's memory
	if target.Preset != nil {
		s.preset = target.Preset.Name
	}
	r.in.served.Store(target.Key, s)
}

// poolConfig is the configuration of the pool of a target.
func (r *route) poolConfig(target dialect.Target) pool.Config {
	cfg := r.pool
	cfg.Key, cfg.Name = target.Key, target.Name
	cfg.Events = r.in.log.of(target.Key, target.Name)
	cfg.Dial = func(ctx context.Context, life pool.Lifeline) (pool.Conn, error) {
		w, err := r.endpoint.dial(ctx, target, life)
		if err != nil {
			return nil, err // a typed nil would look like a session
		}
		return w, nil
	}
	return cfg
}
