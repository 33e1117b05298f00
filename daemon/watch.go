package daemon

import (
	"sync"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// watchBuffer is how many events wait for one slow watcher; later ones are dropped and counted.
const watchBuffer = 256

// watchers passes the beginnings and ends of sessions on to those who watch. Publishing never blocks.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]bool
}

type watcher struct {
	events  chan sessionEvent
	dropped uint64 // since the last event that went in
}

type sessionEvent struct {
	kind    rtdv1.WatchSessionsResponse_Event
	session *session
	dropped uint64
}

// add begins a watch. It returns the sessions whose event OPENED has passed and which are still open; all later events are
// the watcher's.
func (ws *watchers) add(open *registry) (w *watcher, present []*session) {
	w, present = ws.join(open)
	return w, byID(present)
}

// join is add without an order: pollers wait for the lock at the begin of a session.
func (ws *watchers) join(open *registry) (w *watcher, present []*session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]bool{}
	}
	w = &watcher{events: make(chan sessionEvent, watchBuffer)}
	ws.all[w] = true
	for _, s := range open.all() {
		if s.shown {
			present = append(present, s)
		}
	}
	return w, present
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// opened passes on that s has its 101.
func (ws *watchers) opened(s *session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	s.shown = true
	ws.publish(rtdv1.WatchSessionsResponse_EVENT_OPENED, s)
}

// ended passes on that s has ended.
func (ws *watchers) ended(s *session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.publish(rtdv1.WatchSessionsResponse_EVENT_ENDED, s)
}

// publish is called with the lock held.
func (ws *watchers) publish(kind rtdv1.WatchSessionsResponse_Event, s *session) {
	for w := range ws.all {
		select {
		case w.events <- sessionEvent{kind, s, w.dropped}:
			w.dropped = 0
		default:
			w.dropped++
		}
	}
}
