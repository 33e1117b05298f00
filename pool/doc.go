// Package pool keeps warm sessions: a [Pool] per upstream target and a [Set] that owns the pools.
//
// It guarantees that
//   - a session is handed out once, to one caller, and never comes back;
//   - the oldest usable session goes first (one that waits for its replacement before it), and none goes out past its
//     hard limit: MaxIdle, MaxAge, its expiry less MinRemaining;
//   - idle + dialling + active + closing never exceeds MaxConnections, and idle never exceeds Size;
//   - refilling is driven by events and by timers for the next thing due, never by polling, and one pool's slow dials delay no other pool;
//   - a session is replaced before it is retired, while there is room;
//   - every goroutine it starts has ended when Close returns.
//
// The caller owes it a [DialFunc] that ends soon after its context does, a [Conn] whose Close never blocks, and one
// Release (or Dead) for each [Lease]. The pool knows no provider, no wire and no log: errors come classified as
// [DialError], and what happened is in [Stats] and in Config.Events.
//
// # Locks
//
// Set.mu and Pool.mu are never held together, and each Pool has only the one mutex. Nothing foreign runs under it: no
// Conn.Close, no DialFunc, no Events callback. Code that holds it queues such calls, and Pool.unlock makes them
// after the mutex is free. A Conn may therefore call its Lifeline from inside Close, and any callback may call back into the pool
// except Close, which waits for the goroutines that callbacks run on.
package pool
