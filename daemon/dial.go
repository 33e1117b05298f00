package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/pool"
)

// maxReadyBytes bounds what an upstream may send before it is ready: a session.created that echoes long instructions fits.
const maxReadyBytes = 1 << 20

// endpoint dials one upstream and brings its sessions to ready.
type endpoint struct {
	Upstream
	dialect dialect.Dialect
	dialer  wire.Dialer
	engine  *relay.Engine
	redact  func(string) string
}

func (d *Daemon) newEndpoint(u Upstream, proxy func(*url.URL) (*url.URL, error)) (*endpoint, error) {
	spoken, _ := dialect.Lookup(u.Dialect) // validated with the configuration
	config, err := d.upstreamTLS(u)
	return &endpoint{
		Upstream: u,
		dialect:  spoken,
		dialer:   wire.Dialer{TLSConfig: config, Proxy: proxy},
		engine:   d.engine,
		redact:   d.redact.String,
	}, err
}

// warm is an upstream session that is past its ready frames and parked in the relay. It is what the pool keeps.
type warm struct {
	relay  *relay.Session
	from   *endpoint
	preset *dialect.Preset // what it was configured with, nil for nothing
	info   dialect.SessionInfo
	timing wire.Timing
	ready  time.Duration // from the 101 to the last ready frame, that of the preset included
	life   pool.Lifeline // zero on a bypass
	cause  error         // why it died before it had a client; to be read after relay.ErrGone
}

// dial makes one warm session; ctx bounds all of it, from DNS to the last ready frame. Its errors are *pool.DialError.
func (e *endpoint) dial(ctx context.Context, target dialect.Target, life pool.Lifeline) (*warm, error) {
	up, err := e.dialer.Dial(ctx, target.URL, target.Header, target.Subprotocols)
	if err != nil {
		return nil, e.dialError(err)
	}
	start := time.Now()
	w := &warm{from: e, preset: target.Preset, timing: up.Timing, life: life}
	prelude, pending, err := w.open(ctx, up)
	if err != nil {
		up.Conn.Close()
		return nil, e.dialError(err)
	}
	w.ready = time.Since(start)
	w.info.ID = e.redact(w.info.ID)
	w.relay, err = e.engine.Park(relay.Upstream{
		Conn:         up.Conn,
		Prelude:      prelude,
		Pending:      pending,
		PingInterval: e.PingInterval,
		PongTimeout:  e.PongTimeout,
	}, w)
	if err != nil {
		return nil, e.dialError(err)
	}
	return w, nil
}

func (e *endpoint) dialError(err error) error {
	class, after := dialect.Classify(err)
	return &pool.DialError{Class: poolClasses[class], RetryAfter: after, Err: &redactedError{err, e.redact(err.Error())}}
}

// deathError says what the end of a session that had no client yet means for further dials: a Close that speaks of
// the credential is an early answer to the handshake, not a mishap.
func (e *endpoint) deathError(err error) error {
	var closed *relay.CloseError
	if errors.As(err, &closed) {
		err = &dialect.UpstreamError{Close: closed.Code, Message: closed.Reason}
	}
	if class, _ := dialect.Classify(err); class == dialect.ClassUpstream || class == dialect.ClassNone {
		err = &dialect.UpstreamError{Message: err.Error()} // without a class of its own it died, no more
	}
	return e.dialError(err)
}

// redactedError is an error whose text may be shown: an upstream's own words can hold the credential it was sent. It is
// redacted at once, since a client's credential is known only while the client is there.
type redactedError struct {
	err  error
	text string
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// open brings a connection to ready and applies the preset, if there is one. It returns the data frames verbatim and the
// bytes that came behind them.
func (w *warm) open(ctx context.Context, up *wire.Upstream) (prelude, pending []byte, err error) {
	stop := context.AfterFunc(ctx, func() { up.Conn.SetDeadline(time.Unix(1, 0)) })
	because := func(err error) error {
		if !stop() {
			return fmt.Errorf("ready: %w", context.Cause(ctx))
		}
		return err
	}
	o := opening{conn: up.Conn, in: frameReader{conn: up.Conn, buf: up.Early}}
	if w.info, err = o.await(w.from.dialect.NewReady()); err != nil {
		return nil, nil, because(err)
	}
	if w.preset != nil {
		if err := o.apply(w.from.dialect.Preset(w.preset)); err != nil {
			return nil, nil, &dialect.PresetError{Name: w.preset.Name, Err: because(err)}
		}
	}
	stop()
	return o.prelude, o.in.rest(), nil
}

// opening is a connection between its 101 and Park.
type opening struct {
	conn    net.Conn
	in      frameReader
	prelude []byte // the data frames so far
}

// apply sends a text message and waits until answer has what it asked for.
func (o *opening) apply(message []byte, answer dialect.Ready) error {
	if _, err := o.conn.Write(ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame(message)))); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	_, err := o.await(answer)
	return err
}

// await reads whole frames until judge is content; pings are answered on the way.
func (o *opening) await(judge dialect.Ready) (dialect.SessionInfo, error) {
	var message []byte
	for {
		h, frame, payload, err := o.in.next()
		if err != nil {
			return dialect.SessionInfo{}, fmt.Errorf("ready: %w", err)
		}
		switch {
		case h.OpCode == ws.OpPing:
			if _, err := o.conn.Write(ws.MustCompileFrame(ws.MaskFrame(ws.NewPongFrame(payload)))); err != nil {
				return dialect.SessionInfo{}, fmt.Errorf("ready: answer ping: %w", err)
			}
			continue
		case h.OpCode == ws.OpClose:
			code, reason := ws.ParseCloseFrameData(payload)
			return dialect.SessionInfo{}, &dialect.UpstreamError{Close: code, Message: reason}
		case h.OpCode == ws.OpPong:
			continue
		}
		o.prelude = append(o.prelude, frame...)
		message = append(message, payload...)
		if !h.Fin {
			continue
		}
		done, info, err := judge.Frame(h.OpCode, message)
		if err != nil || done {
			return info, err
		}
		message = message[:0]
	}
}

// dialTime is the sum of the steps of the dial.
func (w *warm) dialTime() time.Duration {
	return w.timing.DNS + w.timing.TCP + w.timing.TLS + w.timing.Upgrade
}

// ExpiresAt implements pool.Conn.
func (w *warm) ExpiresAt() time.Time { return w.info.ExpiresAt }

// Close implements pool.Conn.
func (w *warm) Close(r pool.Reason) {
	code := ws.StatusNormalClosure
	if r == pool.ReasonDrain || r == pool.ReasonClosed {
		code = ws.StatusGoingAway
	}
	w.relay.Close(code, "")
}

// Early implements relay.Watcher.
func (w *warm) Early(_ ws.OpCode, payload []byte) error {
	return dialect.ParkedVerdict(w.from.dialect, payload)
}

// Gone implements relay.Watcher.
func (w *warm) Gone(err error) {
	w.cause = w.from.deathError(err)
	w.life.Gone(w.cause)
}

// died adds to relay.ErrGone why the session died, where that is known.
func (w *warm) died(gone error) error {
	if w.cause == nil {
		return gone
	}
	return fmt.Errorf("%w: %w", gone, w.cause)
}

// Closed implements relay.Watcher.
func (w *warm) Closed() { w.life.Closed() }

// frameReader cuts whole frames out of a connection during the ready phase, where latency is the network's and memory
// is released at the hand-over to the relay.
type frameReader struct {
	conn  net.Conn
	buf   []byte
	off   int
	state ws.State
}

// next returns the next frame: its header, all its bytes and its payload. Both slices are valid until the next call.
func (r *frameReader) next() (h ws.Header, frame, payload []byte, err error) {
	for {
		src := bytes.NewReader(r.buf[r.off:])
		h, err = ws.ReadHeader(src)
		if err == nil {
			if err = ws.CheckHeader(h, r.state|ws.StateClientSide); err != nil {
				return h, nil, nil, fmt.Errorf("%w: %w", wire.ErrBadHandshake, err)
			}
			head := src.Size() - int64(src.Len())
			if h.Length > maxReadyBytes-head {
				return h, nil, nil, fmt.Errorf("%w: a frame of %d bytes before the session was ready", wire.ErrBadHandshake, h.Length)
			}
			if int64(src.Len()) >= h.Length {
				frame = r.buf[r.off : r.off+int(head+h.Length)]
				r.off += len(frame)
				if !h.OpCode.IsControl() {
					r.state = r.state.Clear(ws.StateFragmented)
					if !h.Fin {
						r.state = r.state.Set(ws.StateFragmented)
					}
				}
				return h, frame, frame[head:], nil
			}
		} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return h, nil, nil, fmt.Errorf("%w: %w", wire.ErrBadHandshake, err)
		}
		if err := r.fill(); err != nil {
			return h, nil, nil, err
		}
	}
}

// fill reads once, into room behind what is unread.
func (r *frameReader) fill() error {
	if r.off >= maxReadyBytes {
		return fmt.Errorf("%w: over %d bytes before the session was ready", wire.ErrBadHandshake, maxReadyBytes)
	}
	var room [4096]byte
	n, err := r.conn.Read(room[:])
	r.buf = append(r.buf, room[:n]...)
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return &dialect.UpstreamError{Message: "connection closed without a Close frame"}
	}
	return err
}

// rest returns the bytes read behind the last frame.
func (r *frameReader) rest() []byte { return bytes.Clone(r.buf[r.off:]) }

var _ interface {
	pool.Conn
	relay.Watcher
} = (*warm)(nil)
