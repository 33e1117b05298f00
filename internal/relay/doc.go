// Package relay carries WebSocket sessions between a client and an upstream, and watches over upstreams that wait for
// their client.
//
// It guarantees that the frames of one side reach the other byte for byte and in order, that none of a frame's bytes
// leaves before its header was found valid, that control frames of its own go in only between frames and data only
// between messages, that a slow peer holds up only its own direction and costs bounded memory, and that a session
// ends with everything in hand delivered, a Close and a FIN wherever the peers still allow it. An idle session has no
// goroutine and no buffer on Linux, where one epoll loop carries many; elsewhere, or with Config.Goroutines, each
// socket has a reader goroutine and everything else is the same.
//
// The caller owes it connections that nobody else uses any more, handlers that do not block, and a Close of the
// Engine. All methods of Handler and Watcher run on the loop that owns the session: what they are given is theirs
// only until they return, and they must not call Adopt, Park, Counters, Stats or Engine.Close.
package relay
