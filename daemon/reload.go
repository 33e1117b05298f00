package daemon

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/unixsock"
	"github.com/rtd-project/rtd/pool"
)

// Errors of a reload.
var (
	// ErrFixed: the new configuration changes what holds until the next start.
	ErrFixed    = errors.New("cannot change while rtd runs; restart it")
	errStarting = errors.New("rtd is not ready yet; reload it then")
	// ErrNoSource: the daemon was not told where its configuration comes from.
	ErrNoSource = errors.New("this rtd has no configuration to read again; restart it to change one")
)

// Changes counts what a reload did to the pools; those it left alone are in none of them.
type Changes struct {
	Added    int // for targets that were not served before
	Removed  int // of targets that are not served any more
	Recycled int // that replace their idle sessions
}

// Reload puts cfg in force for clients that come from now on; sessions that are open go on. It changes everything or,
// with an error, nothing. A pool whose target is served no more is removed once those of the new targets have been
// made; one whose target stays takes its new limits, and a new size if that is not what the last configuration said: an
// operator's resize and pause are kept. What cannot change while the daemon runs fails with ErrFixed.
func (d *Daemon) Reload(cfg Config) (Changes, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	return d.reload(cfg)
}

// reload is Reload with the lock held.
func (d *Daemon) reload(cfg Config) (Changes, error) {
	cfg = cfg.withDefaults()
	if !d.isReady() {
		return Changes{}, errStarting
	}
	old := d.current()
	if err := errors.Join(cfg.validate(), old.cfg.checkFixed(cfg), d.listeners.check(cfg)); err != nil {
		return Changes{}, err
	}
	for _, secret := range cfg.secrets() {
		d.redact.Add(secret)
	}
	next, err := d.newSettings(cfg)
	if err != nil {
		return Changes{}, err
	}
	changes, gone, err := d.replace(old, next)
	if err != nil {
		return Changes{}, err
	}
	d.configureTraces(cfg)
	var removals sync.WaitGroup
	for _, key := range gone {
		removals.Go(func() { d.pools.Remove(key) })
		d.targets.Delete(key)
	}
	removals.Wait()
	if old.cfg.LogLevel != cfg.LogLevel {
		d.log.SetLevel(cfg.LogLevel)
	}
	d.warn(cfg)
	if cfg.Accepted != nil {
		cfg.Accepted()
	}
	return changes, nil
}

// ReloadFromSource reloads what Config.Source reads, and logs how that went.
func (d *Daemon) ReloadFromSource() (Changes, error) { return d.ReloadFrom(d.current().cfg.Source) }

// ReloadFrom is ReloadFromSource with another source, which is called while no other reload is under way.
func (d *Daemon) ReloadFrom(source func() (Config, error)) (Changes, error) {
	d.notify(unixsock.Reloading())
	defer d.notify(unixsock.Ready)
	changes, err := d.reloadFrom(source)
	if err != nil {
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			d.log.Error("reload refused, the configuration stays as it was", "error", fault)
		}
		return changes, err
	}
	d.log.Info("reloaded", "pools_added", changes.Added, "pools_removed", changes.Removed, "pools_recycled", changes.Recycled)
	return changes, nil
}

// reloadFrom reads and applies under one lock: what was read before another reload must not be put in force after it.
func (d *Daemon) reloadFrom(source func() (Config, error)) (Changes, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if source == nil {
		return Changes{}, ErrNoSource
	}
	cfg, err := source()
	if err != nil {
		return Changes{}, err
	}
	return d.reload(cfg)
}

func (d *Daemon) isReady() bool {
	select {
	case <-d.ready:
		return true
	default:
		return false
	}
}

// checkFixed names every key that differs in next and cannot be changed, one line each.
func (c Config) checkFixed(next Config) error {
	var errs []error
	f := func(key string, same bool) {
		if !same {
			errs = append(errs, fmt.Errorf("%s: %w", key, ErrFixed))
		}
	}
	f("listen", slices.Equal(c.Listen, next.Listen))
	f("admin", c.Admin == next.Admin)
	f("control.socket", c.Socket == next.Socket)
	f("control.listen", c.ControlListen == next.ControlListen)
	f("control.mode", c.SocketMode == next.SocketMode)
	f("control.group", c.SocketGID == next.SocketGID)
	f("control.admin_uids", slices.Equal(c.AdminUIDs, next.AdminUIDs))
	f("control.admin_gids", slices.Equal(c.AdminGIDs, next.AdminGIDs))
	f("limits.write_stall", c.WriteStall == next.WriteStall)
	f("limits.max_message", c.MaxMessage == next.MaxMessage)
	f("limits.max_fragments", c.MaxFragments == next.MaxFragments)
	f("shutdown.close_timeout", c.CloseTimeout == next.CloseTimeout)
	f("relay.pollers", c.Pollers == next.Pollers)
	f("log.format", c.LogFormat == next.LogFormat)
	return errors.Join(errs...)
}

// replace makes the pools that next needs, puts it in force and adapts the pools it shares with old. gone are the keys of
// the pools that nobody needs now. Drains wait meanwhile, so that a new pool cannot miss the end of one.
func (d *Daemon) replace(old, next *settings) (changes Changes, gone []string, err error) {
	wanted, err := next.routes.targets()
	if err != nil {
		return changes, nil, err
	}
	d.drains.mu.Lock()
	defer d.drains.mu.Unlock()
	d.askAgain(next.routes, wanted)
	if d.drains.stopping {
		return changes, nil, errStopping
	}
	var kept []string
	for key, w := range wanted {
		if d.pools.Get(key) != nil {
			kept = append(kept, key)
			continue
		}
		if err := d.addPool(old, w); err != nil {
			return changes, nil, err // only a daemon that is closed refuses
		}
		changes.Added++
	}
	d.settings.Store(next)
	old.routes.retire()
	for _, key := range kept {
		recycled, err := d.adaptPool(key, wanted[key])
		if err != nil {
			return changes, nil, err
		}
		if recycled {
			changes.Recycled++
		}
	}
	for _, p := range d.pools.List() {
		if _, ok := wanted[p.Key()]; !ok {
			gone = append(gone, p.Key())
		}
	}
	changes.Removed = len(gone)
	return changes, gone, nil
}

// wanted is a target that a configuration serves, and how.
type wanted struct {
	ask   dialect.Ask
	route *route
	dialect.Target
}

// targets are those of all models, by key; models that are one to the upstream share theirs.
func (rs *routes) targets() (map[string]wanted, error) {
	all := map[string]wanted{}
	if rs.unused {
		return all, nil
	}
	for _, model := range rs.models() {
		r := rs.byModel[model]
		t, err := r.target(model)
		if err != nil {
			return nil, err
		}
		if _, ok := all[t.Key]; !ok {
			all[t.Key] = wanted{dialect.Ask{Model: model}, r, t}
		}
	}
	return all, nil
}

// askAgain adds the targets of the pools that clients' requests made, as far as there still are such: of a preset that a
// route does not have by itself, or of an intent.
func (d *Daemon) askAgain(next *routes, all map[string]wanted) {
	if next.unused {
		return
	}
	for _, p := range d.pools.List() {
		ask := d.served(p.Key()).ask
		if ask.Preset == "" && ask.Intent == "" {
			continue
		}
		r, _, err := next.find(ask)
		if err != nil {
			continue
		}
		t, err := r.targetOf(r.endpoint.Upstream.Upstream, ask)
		if _, ok := all[t.Key]; err == nil && t.Bypass == "" && !ok {
			all[t.Key] = wanted{ask, r, t}
		}
	}
}

// addPool makes the pool of w. What an operator did to the pool that served the same before holds for this one too. It has no
// size before it is known whether it may dial.
func (d *Daemon) addPool(old *settings, w wanted) error {
	before := d.poolBefore(old, w.ask)
	cfg := w.route.poolConfig(w.Target)
	size := cfg.Size
	cfg.Size = 0
	w.route.serve(w.ask, w.Target)
	p, err := d.pools.GetOrCreate(cfg)
	if err != nil {
		return err
	}
	paused := false
	if before != nil {
		s, told := before.Stats(), d.served(before.Key()).size
		if s.Size != told && told == size {
			size = min(s.Size, p.Stats().MaxSize)
		}
		paused = s.Paused
	}
	if dr := d.drains.current; dr != nil {
		paused = dr.paused[before]
		dr.paused[p] = paused
		p.Drain()
	} else if paused {
		p.Pause()
	}
	return p.Resize(size)
}

// poolBefore is the pool that serves what is asked under old, nil for none.
func (d *Daemon) poolBefore(old *settings, ask dialect.Ask) *pool.Pool {
	r, _, err := old.routes.find(ask)
	if err != nil {
		return nil
	}
	t, err := r.targetOf(r.endpoint.Upstream.Upstream, ask)
	if err != nil {
		return nil
	}
	return d.pools.Get(t.Key)
}

// adaptPool gives a pool that stays its new limits, and says whether its idle sessions have to be replaced for them.
func (d *Daemon) adaptPool(key string, w wanted) (recycled bool, err error) {
	p, before := d.pools.Get(key), d.served(key)
	cfg := w.route.poolConfig(w.Target)
	if err := p.Reconfigure(cfg); err != nil {
		return false, err
	}
	if cfg.Size != before.size {
		err = p.Resize(cfg.Size)
	}
	w.route.serve(w.ask, w.Target)
	if before.route.makesTheSame(w.route) {
		return false, err
	}
	p.Recycle()
	return true, err
}

// makesTheSame reports whether a session of r is as good as one of other, given that they have a target in common.
func (r *route) makesTheSame(other *route) bool {
	a, b := r.pool, other.pool
	return a.MaxIdle == b.MaxIdle && a.MaxAge == b.MaxAge && a.MinRemaining == b.MinRemaining && a.AgeJitter == b.AgeJitter &&
		r.endpoint.Upstream.same(other.endpoint.Upstream)
}

// same compares all that decides how a session is made.
func (u Upstream) same(other Upstream) bool {
	a, b := u.RootCAs, other.RootCAs
	if (a == nil) != (b == nil) || a != nil && !a.Equal(b) {
		return false
	}
	u.RootCAs, other.RootCAs = nil, nil
	return reflect.DeepEqual(u, other)
}
