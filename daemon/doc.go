// Package daemon is rtd itself: it accepts clients, routes them by model, hands each a warm upstream session and owns
// everything that lives as long as the process.
//
// The path of a client is serve.go (read the request, admit it, route it) → pool.Take → relay.Adopt; from then on the
// relay's poller calls the session (session.go) with what it sees, and the session's end releases the lease, feeds the
// statistics and writes one log line. Nothing in this package touches a socket after Adopt.
//
// A caller fills a Config, calls New, then Run. Run returns when its context ends or a stop was asked for and every
// session is gone; see drain.go for the steps and their bounds.
//
// Locks: registry.mu and endQueue.mu are leaves; nothing is called while they are held. watchers.mu comes before
// registry.mu, drainer.mu before it, before drain.mu and before those of the pools. Pool and relay callbacks are entered
// without any lock of this package.
package daemon
