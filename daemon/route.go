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
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/pool"
)

// route is a Route at work: its endpoint and, per target, the pool that serves it.
type route struct {
	models   []string
	endpoint *endpoint
	pool     pool.Config
	targets  *sync.Map // the daemon's
	log      *poolLog  // the daemon's
}

// routes finds the route of a request. It is built once and read by every accept.
type routes struct {
	byModel map[string]*route
	first   *route // serves what names no model: call_id and intent=transcription
}

func newRoutes(cfg []Route, engine *relay.Engine, redact func(string) string, targets *sync.Map, log *poolLog) *routes {
	rs := &routes{byModel: map[string]*route{}}
	for _, c := range cfg {
		r := &route{models: c.Models, endpoint: newEndpoint(c.Upstream, engine, redact), pool: c.Pool, targets: targets, log: log}
		defaults := r.endpoint.dialect.Defaults()
		r.pool.MaxIdle = orDefault(c.Pool.MaxIdle, defaults.MaxIdle)
		r.pool.MaxAge = orDefault(c.Pool.MaxAge, defaults.MaxAge)
		r.pool.MinRemaining = orDefault(c.Pool.MinRemaining, defaults.MinRemaining)
		rs.first = orDefault(rs.first, r)
		for _, m := range c.Models {
			rs.byModel[m] = r
		}
	}
	return rs
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
		message: fmt.Sprintf("model %q has no route here; known models: %s", ask.Model, strings.Join(rs.models(), ", ")),
	}
}

func (rs *routes) models() []string { return slices.Sorted(maps.Keys(rs.byModel)) }

// check renders the handshake of every model once, so that an upstream that cannot be dialled as configured is an error
// of the configuration and not of the first client.
func (rs *routes) check() error {
	var faults []error
	for _, model := range rs.models() {
		if _, err := rs.byModel[model].target(model); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// target renders the handshake of a configured model.
func (r *route) target(model string) (dialect.Target, error) {
	t, err := r.endpoint.dialect.Target(r.endpoint.Upstream.Upstream, dialect.Ask{Model: model})
	if err != nil {
		return t, fmt.Errorf("route of model %q: %w", model, err)
	}
	return t, nil
}

// targetURL is where the pool of that key dials, "" when there is none. It holds no credential.
func (d *Daemon) targetURL(key string) string {
	url, _ := d.targets.Load(key)
	s, _ := url.(string)
	return s
}

// warmPools creates the pool of every configured model, so that it fills before the first client comes.
func (rs *routes) warmPools(set *pool.Set) error {
	for _, model := range rs.models() {
		r := rs.byModel[model]
		target, err := r.target(model)
		if err != nil {
			return err
		}
		if _, err := r.poolFor(set, target); err != nil {
			return fmt.Errorf("route of model %q: %w", model, err)
		}
	}
	return nil
}

// poolFor returns the pool of a target of this route.
func (r *route) poolFor(set *pool.Set, target dialect.Target) (*pool.Pool, error) {
	if p := set.Get(target.Key); p != nil {
		return p, nil
	}
	cfg := r.pool
	cfg.Key, cfg.Name = target.Key, target.Name
	cfg.Events = r.log.of(target.Key, target.Name)
	cfg.Dial = func(ctx context.Context, life pool.Lifeline) (pool.Conn, error) {
		w, err := r.endpoint.dial(ctx, target, life)
		if err != nil {
			return nil, err // a typed nil would look like a session
		}
		return w, nil
	}
	r.targets.Store(target.Key, target.URL.Redacted())
	return set.GetOrCreate(cfg)
}
