package pool

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Set owns the pools of a daemon, one per key. Its methods are safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	pools  map[string]*Pool
	closed bool
}

// NewSet returns an empty set. The caller closes it.
func NewSet() *Set { return &Set{pools: make(map[string]*Pool)} }

// Get returns the pool of key, or nil.
func (s *Set) Get(key string) *Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools[key]
}

// GetOrCreate returns the pool of cfg.Key, made from cfg if there is none. It fails with ErrClosed or as New does.
func (s *Set) GetOrCreate(cfg Config) (*Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("pool %q: create: %w", cfg.Name, ErrClosed)
	}
	if p := s.pools[cfg.Key]; p != nil {
		return p, nil
	}
	p, err := New(cfg)
	if err != nil {
		return nil, err
	}
	s.pools[cfg.Key] = p
	return p, nil
}

// Remove closes the pool of key, if there is one, and forgets it. Sessions taken from it go on.
func (s *Set) Remove(key string) {
	s.mu.Lock()
	p := s.pools[key]
	delete(s.pools, key)
	s.mu.Unlock()
	if p != nil {
		p.Close()
	}
}

// List returns the pools sorted by name, then by key.
func (s *Set) List() []*Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Pool, 0, len(s.pools))
	for _, p := range s.pools {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Key(), b.Key()))
	})
	return list
}

// Close closes all pools at the same time and waits for them. The set stays readable but takes no new pool.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range s.List() {
		all.Go(p.Close)
	}
	all.Wait()
}
