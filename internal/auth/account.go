package auth

import (
	"sync"
	"sync/atomic"
	"time"
)

// accounts has what is counted of each key by its digest: another name, or a reload that leaves the key out, does not
// end its sessions.
type accounts struct {
	mu  sync.Mutex
	all map[Digest]*account
}

// account is what is counted of one key.
type account struct {
	sessions atomic.Int64 // goes up only while accounts.mu is held
	connects bucket       // guarded by accounts.mu
}

// of returns the account of a key. s.mu is held, until what is counted is.
func (s *accounts) of(k *Key) *account {
	acc := s.all[k.Digest]
	if acc == nil {
		acc = &account{}
		s.all[k.Digest] = acc
	}
	return acc
}

// connect counts a connect that opens no session, or says when there may be one.
func (s *accounts) connect(k *Key, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(k).connects.take(now, k.ConnectsPerSecond, k.Burst)
}

// enter counts a connect and a session, or says why not and when to try again.
func (s *accounts) enter(k *Key, now time.Time) (acc *account, r Reason, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acc = s.of(k)
	if wait := acc.connects.take(now, k.ConnectsPerSecond, k.Burst); wait > 0 {
		return nil, ReasonRate, wait
	}
	if k.MaxSessions > 0 && acc.sessions.Load() >= int64(k.MaxSessions) {
		return nil, ReasonSessions, sessionsRetryAfter
	}
	acc.sessions.Add(1)
	return acc, granted, 0
}

// forget drops the accounts that say no more than a new one would, but for those of keys.
func (s *accounts) forget(keys []Key, now time.Time) {
	configured := map[Digest]bool{}
	for _, k := range keys {
		configured[k.Digest] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, acc := range s.all {
		if !configured[d] && acc.sessions.Load() == 0 && !now.Before(acc.connects.full) {
			delete(s.all, d)
		}
	}
}
