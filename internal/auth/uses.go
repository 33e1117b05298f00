package auth

import (
	"sync"
	"time"
)

// maxTokensInUse bounds the tokens whose uses are remembered: about 10 MiB when all are.
const maxTokensInUse = 1 << 16

// uses remembers how often each token opened a session, until the token ends.
type uses struct {
	mu    sync.Mutex
	limit int // maxTokensInUse but in tests
	used  map[tokenID]use
	next  time.Time // no token ends before
}

type use struct {
	count uint32
	ends  time.Time
}

// reserve counts one use of at most most, unless the session comes to nothing (giveBack).
func (u *uses) reserve(now time.Time, id tokenID, most uint32, ends time.Time) Reason {
	u.mu.Lock()
	defer u.mu.Unlock()
	e, known := u.used[id]
	if e.count >= most {
		return ReasonTokenUsed
	}
	if !known && len(u.used) >= u.limit {
		u.forget(now)
		if len(u.used) >= u.limit {
			return ReasonTokenLoad
		}
	}
	u.used[id] = use{e.count + 1, ends}
	if u.next.IsZero() || ends.Before(u.next) {
		u.next = ends
	}
	return granted
}

// granted is no reason to deny.
const granted Reason = 255

// forget drops the tokens that have ended. It looks only when one of them can have.
func (u *uses) forget(now time.Time) {
	if now.Before(u.next) {
		return
	}
	u.next = time.Time{}
	for id, e := range u.used {
		switch {
		case !now.Before(e.ends):
			delete(u.used, id)
		case u.next.IsZero() || e.ends.Before(u.next):
			u.next = e.ends
		}
	}
}

func (u *uses) giveBack(id tokenID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e, ok := u.used[id]
	switch {
	case !ok:
	case e.count == 1:
		delete(u.used, id)
	default:
		e.count--
		u.used[id] = e
	}
}
