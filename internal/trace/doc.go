// Package trace turns finished sessions into OpenTelemetry traces and sends them to an OTLP receiver, over HTTP with
// protobuf.
//
// It guarantees that nobody who begins, feeds or ends a session waits for the receiver: what ended waits in a queue that
// is bounded in spans, whatever does not fit there is dropped as a whole trace and counted, and one goroutine, Run, makes
// the spans and sends them in batches. A receiver that fails for a while is tried again with the same batch; the caller
// hears of the first failure and of the recovery, not of what is in between. While tracing is off, or a session is not
// sampled, there is no Session and nothing is kept.
//
// The caller runs Run once, ends it with Stop, and puts nothing into a Record that the receiver must not see: secrets
// and what was said are taken out before.
package trace
