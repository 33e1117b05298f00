// Package bench measures what a client of a realtime voice API waits for, and what a gateway in front of it adds or takes
// away.
//
// Connect makes whole calls (dial, session, a spoken answer, close) to one or several endpoints, interleaved so that all
// of them meet the same machine in the same seconds. Stream sends audio at the pace of a microphone, every chunk stamped,
// and gets it back. Peers puts the same loads through rtd and through other proxies. Rig starts the processes that such a
// run needs.
//
// It guarantees that latency counts from when something was due and not from when the generator got around to it, so that
// a stall shows with everything that waited behind it; that failures are counted apart by cause and never enter a
// percentile; that percentiles are by nearest rank over one histogram of all workers; that the generator reports its own
// lateness and CPU, and marks a run invalid in which it was the bottleneck; and that no credential is in a Report.
//
// The caller owes a context, whose end stops a run early with what was measured so far, and Close for a Rig.
package bench
