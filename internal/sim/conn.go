package sim

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// readBuffer holds a 20 ms append whole. An idle connection keeps it, so it is no larger.
const readBuffer = 2 << 10

// conn is one session. Its reader is the goroutine of run; responses have one each while they last.
//
// Locks: writing is taken for a write, talk for the conversation; neither while the other is held.
type conn struct {
	s    *Server
	id   int64
	nc   net.Conn
	br   *bufio.Reader
	gone chan struct{} // closed when the reader has ended

	model, credential, beta, subprotocol string
	transcription                        bool
	openedAt                             time.Time
	sessionID                            string

	ids                                 atomic.Int64
	clientMessages, audioIn, responsesN atomic.Int64
	closeCode                           atomic.Int32

	writing sync.Mutex
	closing bool // a Close frame was sent, or the socket's end: nothing may follow
	mute    bool // hung by a failure rule

	// The reader's own.
	expiresAt int64    // unix seconds, 0 = never
	session   *session // nil: the default
	hearing   hearing
	echoes    uint32 // stamped chunks sent back
	trap      *Rule  // acts on one of the client's events, nil: none or sprung

	talk         sync.Mutex
	conversation conversation
	active       map[string]*response // by ID
	main         *response            // the latest of the conversation, nil or maybe over
	responding   sync.WaitGroup
}

func newConn(s *Server, nc net.Conn, early []byte) *conn {
	c := &conn{s: s, nc: nc, gone: make(chan struct{}), openedAt: time.Now(), id: s.counters.nextConnID.Add(1)}
	c.sessionID = c.newID("sess")
	c.br = bufio.NewReaderSize(&prefixed{early, nc}, readBuffer)
	return c
}

// prefixed reads what came with the upgrade request first.
type prefixed struct {
	early []byte
	nc    net.Conn
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.early) == 0 {
		return p.nc.Read(b)
	}
	n := copy(b, p.early)
	if p.early = p.early[n:]; len(p.early) == 0 {
		p.early = nil
	}
	return n, nil
}

func (c *conn) stats(open bool) ConnStats {
	return ConnStats{
		ID: c.id, SessionID: c.sessionID, Model: c.model, Credential: c.credential, Beta: c.beta, Subprotocol: c.subprotocol,
		Open: open, OpenedAt: c.openedAt,
		ClientMessages: c.clientMessages.Load(), AudioBytesIn: c.audioIn.Load(), Responses: c.responsesN.Load(),
		CloseCode: int(c.closeCode.Load()),
	}
}

// run is the session from the 101 to the end of its socket.
func (c *conn) run(rule *Rule) {
	defer c.s.wg.Done()
	err := c.serve(rule)
	close(c.gone)
	c.closeCode.CompareAndSwap(0, int32(ws.StatusAbnormalClosure))
	var broken ws.ProtocolError
	switch {
	case errors.As(err, &broken):
		c.s.counters.protocolErrors.Add(1)
		c.fail(ws.StatusProtocolError, err)
	case errors.Is(err, errNotUTF8):
		c.s.counters.protocolErrors.Add(1)
		c.fail(ws.StatusInvalidFramePayloadData, err)
	case errors.Is(err, errTooBig):
		c.fail(ws.StatusMessageTooBig, err)
	}
	_ = c.nc.Close() // before the wait: it ends a response's write to a peer that reads nothing
	c.responding.Wait()
	c.s.unregister(c)
}

// fail closes on a peer that broke the rules, and lets it read why.
func (c *conn) fail(code ws.StatusCode, why error) {
	c.close(code, why.Error())
	if t, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = t.CloseWrite()
	}
	drain(c.nc, time.Now().Add(closeTimeout))
}

func (c *conn) serve(rule *Rule) error {
	switch {
	case rule == nil:
	case rule.on != "":
		c.trap = rule
	case rule.after == 0:
		c.act(rule, "")
	default:
		defer time.AfterFunc(rule.after, func() { c.act(rule, "") }).Stop()
	}
	if err := c.awaitSession(); err != nil {
		return err
	}
	if d := c.s.cfg.ExpiresIn; d > 0 {
		c.expiresAt = time.Now().Add(d).Unix()
		defer time.AfterFunc(d, func() {
			c.close(ws.StatusGoingAway, "the session reached its maximum duration of "+d.String())
		}).Stop()
	}
	b := newBatch()
	c.begin(b, "session.created").json("session", c.currentSession()).end()
	c.flush(b)
	b.free()
	for {
		if err := c.readMessage(); err != nil {
			return err
		}
	}
}

// awaitSession waits for the session delay; a peer that leaves meanwhile is noticed, one that sends is read later.
func (c *conn) awaitSession() error {
	delay := c.s.cfg.SessionDelay
	if delay <= 0 {
		return nil
	}
	ready := time.Now().Add(delay)
	c.readUntil(ready)
	_, err := c.br.Peek(1)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		err = nil
	}
	c.readUntil(time.Time{})
	if err != nil {
		return err
	}
	if !pause(c.s.stop, time.Until(ready)) {
		return nil // closing: the read loop waits for the peer's Close
	}
	return nil
}

// readUntil sets the read deadline unless that of the closing handshake is in force.
func (c *conn) readUntil(t time.Time) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.closing {
		_ = c.nc.SetReadDeadline(t)
	}
}

// spring acts out the rule that waits for an event of this type. When it does, the event gets no answer.
func (c *conn) spring(typ, eventID string) bool {
	if c.trap == nil || c.trap.on != typ {
		return false
	}
	rule := c.trap
	c.trap = nil
	c.act(rule, eventID)
	return true
}

// act acts out a failure rule after the 101; eventID is that of the client's event that sprung it, "" for none.
func (c *conn) act(rule *Rule, eventID string) {
	switch rule.act {
	case actError:
		b := newBatch()
		c.fault(b, fault{code: rule.errorCode, message: rule.reason, eventID: eventID})
		c.flush(b)
		b.free()
	case actClose:
		c.close(rule.code, rule.reason)
	case actReset:
		reset(c.nc)
	case actHang:
		c.writing.Lock()
		c.mute = true
		c.writing.Unlock()
	case actFIN:
		c.writing.Lock()
		defer c.writing.Unlock()
		if !c.closing {
			c.closing = true
			halfClose(c.nc)
			_ = c.nc.SetReadDeadline(time.Now().Add(closeTimeout))
		}
	}
}

// close sends a Close frame, once, and gives the peer closeTimeout to answer it.
func (c *conn) close(code ws.StatusCode, reason string) {
	var body []byte
	if code != ws.StatusNoStatusRcvd {
		body = ws.NewCloseFrameBody(code, clip(reason, ws.MaxControlFramePayloadSize-2))
	}
	deadline := time.Now().Add(closeTimeout)
	_ = c.nc.SetWriteDeadline(deadline) // also for a write in progress, which holds the lock
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closing {
		return
	}
	_ = c.nc.SetWriteDeadline(deadline) // the 101 clears its own
	c.closing = true
	if !c.mute {
		_, _ = c.nc.Write(appendFrame(nil, ws.OpClose, body)) // the peer may have left
	}
	_ = c.nc.SetReadDeadline(deadline)
}

// flush writes the batch and empties it. It is false when nothing can be written any more.
func (c *conn) flush(b *batch) bool {
	if len(b.frames) == 0 {
		return true
	}
	defer b.reset()
	c.s.counters.sent(b, 1) // before the write: what a client has read, it finds counted
	if !c.write(b.frames) {
		c.s.counters.sent(b, -1)
		return false
	}
	return true
}

func (c *conn) write(frames []byte) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closing || c.mute {
		return false
	}
	if _, err := c.nc.Write(frames); err != nil {
		c.closing = true
		_ = c.nc.Close() // a frame may have been cut short: nothing can follow it; the reader ends too
		return false
	}
	return true
}

// deaf reports whether messages are read only to be thrown away.
func (c *conn) deaf() bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.closing || c.mute
}

// hung reports whether even a Close goes unanswered.
func (c *conn) hung() bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.mute && !c.closing
}

var messages = sync.Pool{New: func() any { return new([]byte) }}

// readMessage reads one whole message and handles it; control frames on the way are answered. No buffer is held while
// nothing arrives.
func (c *conn) readMessage() error {
	h, err := c.nextData(ws.StateServerSide)
	if err != nil {
		return err
	}
	buf := messages.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 1<<20 {
			messages.Put(buf)
		}
	}()
	op, msg := h.OpCode, (*buf)[:0]
	for {
		if h.Length > maxMessage-int64(len(msg)) { // the sum could overflow
			return errTooBig
		}
		msg, err = readPayload(c.br, h, msg)
		*buf = msg
		if err != nil {
			return err
		}
		if h.Fin {
			break
		}
		if h, err = c.nextData(ws.StateServerSide | ws.StateFragmented); err != nil {
			return err
		}
	}
	if op == ws.OpText && !utf8.Valid(msg) {
		return errNotUTF8
	}
	if !c.deaf() {
		c.handle(op, msg)
	}
	return nil
}

// nextData answers control frames until a data frame's header arrives.
func (c *conn) nextData(state ws.State) (ws.Header, error) {
	for {
		h, err := readHeader(c.br, state)
		if err != nil || !h.OpCode.IsControl() {
			return h, err
		}
		if err := c.control(h); err != nil {
			return h, err
		}
	}
}

func (c *conn) control(h ws.Header) error {
	var space [ws.MaxControlFramePayloadSize]byte
	p := space[:h.Length]
	if _, err := io.ReadFull(c.br, p); err != nil {
		return err
	}
	ws.Cipher(p, h.Mask, 0)
	switch h.OpCode {
	case ws.OpPing:
		c.write(appendFrame(nil, ws.OpPong, p))
	case ws.OpClose:
		code, err := checkClose(p)
		if err != nil {
			return err
		}
		c.closeCode.Store(int32(code))
		if c.hung() {
			return nil
		}
		c.close(code, "")
		return errPeerClosed
	}
	return nil
}

// clip cuts s to at most n bytes without splitting a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
