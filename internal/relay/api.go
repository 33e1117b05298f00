package relay

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gobwas/ws"
)

// HeadMax and TailMax bound what Handler.Head is given, CaptureMax each half of what Handler.Message is given, in bytes.
const (
	HeadMax    = 192
	TailMax    = 160
	CaptureMax = 4 << 10
)

// Errors of Park, Adopt, Watcher.Gone and End.
var (
	// ErrGone: the upstream was dead, or closed, before a byte reached the client.
	ErrGone = errors.New("relay: the upstream is gone")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("relay: the engine is closed")
	// ErrConn: the connection is neither a *net.TCPConn nor a *tls.Conn over a *wire.Transport over one.
	ErrConn = errors.New("relay: connection of a kind that cannot be relayed")
	// ErrResources: the system has no descriptor left.
	ErrResources = errors.New("relay: out of descriptors")
	// ErrPrelude: more than Config.MaxPrelude arrived early on a parked upstream and no client came, or the given prelude is
	// not whole frames.
	ErrPrelude = errors.New("relay: prelude is too long or not whole frames")
	// ErrWriteStall: the peer took no byte for Config.WriteStall.
	ErrWriteStall = errors.New("relay: the peer takes no bytes")
	// ErrPongTimeout: nothing arrived for PongTimeout after a ping.
	ErrPongTimeout = errors.New("relay: the peer answers no ping")
	// ErrPanic: a Handler, a Watcher or this package itself panicked over the session.
	ErrPanic = errors.New("relay: panic in a session")
)

// CloseError is the Close frame that ended a parked upstream. Code is 1005 when the frame was empty.
type CloseError struct {
	Code   ws.StatusCode
	Reason string // redacted
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("relay: the upstream closed with %d %q", e.Code, e.Reason)
}

// Dir is a direction of a session. It indexes the arrays of Counters.
type Dir uint8

// Up is from the client to the upstream, Down the other way.
const (
	Up Dir = iota
	Down
)

// Side names who ended a session.
type Side uint8

// The sides. A peer that broke the protocol or stopped answering counts as the one who ended the session.
const (
	ByClient Side = iota
	ByUpstream
	ByGateway
)

func (s Side) String() string { return [...]string{"client", "upstream", "gateway"}[s] }

// Upstream is a ready upstream to park. Everything in it belongs to the engine from the call on.
type Upstream struct {
	// Conn is a *net.TCPConn, or a *tls.Conn whose NetConn is a *wire.Transport over one, its handshake done.
	Conn net.Conn
	// Prelude has the whole frames to replay to the client, verbatim. Its length is the caller's decision.
	Prelude []byte
	// Pending has the bytes that were read behind Prelude. It may end inside a frame.
	Pending []byte
	// PingInterval is the time between own pings; default 15 s, negative is never.
	PingInterval time.Duration
	// PongTimeout is how long after a ping the upstream may be silent; 0 is for ever. Any inbound byte is a sign of life.
	PongTimeout time.Duration
}

// Watcher is told about a parked session. A panic evicts the session.
type Watcher interface {
	// Early is called for each whole data message that arrives while parked, also for those in Upstream.Pending, and so
	// perhaps before Park returned. The message stays in the prelude; an error evicts the session.
	Early(op ws.OpCode, payload []byte) error
	// Gone is called once when the session died or was evicted while parked, perhaps before Park returned. It is not
	// called after Adopt succeeded or Session.Close.
	Gone(err error)
	// Closed is called once, last, when the sockets of a session that no client adopted are closed: after Gone or
	// Session.Close, and as long after as the closing handshake took.
	Closed()
}

// Client is a client to join to a parked session.
type Client struct {
	// Conn is of the kinds that Upstream.Conn allows.
	Conn net.Conn
	// Response is written before anything else, in one write with the prelude: the head of the 101.
	Response []byte
	// Early has the bytes that were read behind the client's request. It may end inside a frame.
	Early []byte
	// PingInterval and PongTimeout are as in Upstream.
	PingInterval, PongTimeout time.Duration
	// LossEvent is the payload of a text message that goes before the Close 1011 when the upstream is lost without a
	// Close; nil for none. Few distinct ones are expected in a process.
	LossEvent []byte
}

// Handler sees a live session. A panic ends that session with 1011.
type Handler interface {
	// Opened is called once, before all else, when the client's response is about to be written: who reads it finds done
	// what Opened does.
	Opened()
	// Head is called once for each data message that is relayed, in order, with its first bytes, unmasked: HeadMax of
	// them or all. at is when the bytes were readable, since the engine's start. capture asks for Message. Neither head nor
	// tail may be kept.
	//
	// What alike describes is not shown from here on, in this direction, beside what was described so before; a Head that
	// describes nothing, with an empty prefix, ends that for all of it.
	Head(dir Dir, op ws.OpCode, head []byte, tail *Tail, at time.Duration) (capture bool, alike Alike)
	// Message is called at the end of a captured message with its first CaptureMax bytes. last has its last CaptureMax
	// bytes and may overlap first; it is nil when first is the whole message.
	Message(dir Dir, first, last []byte, at time.Duration)
	// Passed is called with what was passed on since the call before, the oldest first and a few at once: before the next
	// Head or Message of the direction, before anybody looks at the session or at Engine.Stats, and before End. passages may
	// not be kept. What only waited for the rest of a header is not told.
	Passed(dir Dir, passages []Passage)
	// End is called once, after both sockets are closed.
	End(End)
}

// End tells how a session ended.
type End struct {
	By Side
	// Code is 1005 for an empty Close and 1006 where there was none; else it was on the wire, or would have been.
	Code     ws.StatusCode
	Reason   string // redacted
	Err      error  // what went wrong; nil after a Close
	Counters Counters
}

// Counters count what was relayed, by direction. A session's are owned by its loop.
type Counters struct {
	// Frames counts the data and Close frames that were passed on, Bytes all bytes of those frames, Messages the data
	// messages that were passed on to their end. The prelude counts.
	Frames, Bytes, Messages [2]uint64
	// PingsAnswered counts the pings of the client (Up) and of the upstream (Down).
	PingsAnswered [2]uint64
	// Held is the number of bytes held now, in both directions.
	Held int
	// Working is what the engine keeps on top of SessionBytes while something goes on, in bytes.
	Working int
}

// Totals are the engine's gauges and counters.
type Totals struct {
	// Parked and Live count sessions; Lingering those that wait for their sockets to end.
	Parked, Live, Lingering int
	// Frames, Bytes and Messages are the sums of what all live sessions ever counted, by direction.
	Frames, Bytes, Messages [2]uint64
	Held                    int // bytes
	Descriptors             int // sockets owned
}
