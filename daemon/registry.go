package daemon

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// registry holds the sessions whose two sockets the relay has.
type registry struct {
	mu     sync.Mutex
	live   map[string]*session
	closed bool          // no more sessions: draining
	idle   chan struct{} // closed while live is empty
}

func newRegistry() *registry {
	r := &registry{live: map[string]*session{}, idle: make(chan struct{})}
	close(r.idle)
	return r
}

// add enters s, or says that the registry is closed.
func (r *registry) add(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if len(r.live) == 0 {
		r.idle = make(chan struct{})
	}
	r.live[s.id] = s
	return true
}

func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.live[s.id]; !ok {
		return
	}
	delete(r.live, s.id)
	if len(r.live) == 0 {
		close(r.idle)
	}
}

func (r *registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

// get returns the session of that id, or nil.
func (r *registry) get(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id]
}

// list returns the sessions by id. They are sorted without the lock: pollers take it at the end of a session.
func (r *registry) list() []*session {
	return byID(r.all())
}

// byID sorts sessions in place.
func byID(sessions []*session) []*session {
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return sessions
}

// all returns the sessions in no order.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.live))
}

// close refuses further sessions until open.
func (r *registry) close() { r.setClosed(true) }

func (r *registry) open() { r.setClosed(false) }

func (r *registry) setClosed(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
}

func (r *registry) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// empty returns a channel that is closed once no session is left.
func (r *registry) empty() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle
}

// endQueue hands ended sessions from the pollers, which must not wait, to the goroutine that logs them.
type endQueue struct {
	mu     sync.Mutex
	queued []*session
	wake   chan struct{} // capacity 1
}

func newEndQueue() *endQueue { return &endQueue{wake: make(chan struct{}, 1)} }

func (q *endQueue) push(s *session) {
	q.mu.Lock()
	q.queued = append(q.queued, s)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run finishes ended sessions until stop is closed and the queue is empty.
func (q *endQueue) run(stop <-chan struct{}) {
	for {
		select {
		case <-q.wake:
			q.drain()
		case <-stop:
			q.drain()
			return
		}
	}
}

func (q *endQueue) drain() {
	q.mu.Lock()
	batch := q.queued
	q.queued = nil
	q.mu.Unlock()
	for _, s := range batch {
		s.finish()
	}
}

// counts is a small set of named counters.
type counts struct {
	mu sync.Mutex
	m  map[string]uint64
}

// add counts one more and returns how many that makes.
func (c *counts) add(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]uint64{}
	}
	c.m[name]++
	return c.m[name]
}

func (c *counts) snapshot() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.m)
}
