// Package wire speaks the outermost layer of a WebSocket: the opening handshake in both directions and the
// headers of frames.
//
// It guarantees that nothing is allocated on a peer's word (heads are bounded in bytes, lines and time), that a
// handshake is accepted only when RFC 6455 allows it, that no byte behind a head is lost, and that a frame's header
// is valid before any of its bytes may be forwarded.
//
// The caller owns every connection it passes in or gets back and must close it, also after an error from
// ReadRequest or WriteError. Dial closes what it opened when it fails. A dial is bounded only by its context, so the
// caller owes it a deadline.
package wire
