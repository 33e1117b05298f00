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

func (ws *watchers) add() *watcher {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]bool{}
	}
	w := &watcher{events: make(chan sessionEvent, watchBuffer)}
	ws.all[w] = true
	return w
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

func (ws *watchers) publish(kind rtdv1.WatchSessionsResponse_Event, s *session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		select {
		case w.events <- sessionEvent{kind, s, w.dropped}:
			w.dropped = 0
		default:
			w.dropped++
		}
	}
}
