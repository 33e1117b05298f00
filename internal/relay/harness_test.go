package relay

import (
	"bytes"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// response stands for the head of a 101: the engine writes it as it is.
const response = "HTTP/1.1 101 test\r\n\r\n"

// engines are the configurations that every behaviour is tested with.
var engines = []struct {
	name       string
	goroutines bool
}{{"epoll", false}, {"goroutines", true}}

// onEach runs body on an engine of each kind. body runs in a goroutine of its own, since both kinds of peers end the
// goroutine they fail in.
func onEach(t *testing.T, config Config, body func(b *bench)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			config.Goroutines = e.goroutines
			b := newBench(t, config)
			done := make(chan struct{})
			go func() {
				defer close(done)
				body(b)
			}()
			<-done
		})
	}
}

// bench is an engine and the peers around it.
type bench struct {
	testing.TB
	*Engine
	mu    sync.Mutex // a dial and its accept belong together
	ln    net.Listener
	plain *wiretest.Upstream
	conns chan *wiretest.UpstreamConn
	over  chan struct{}
}

func newBench(t testing.TB, config Config) *bench {
	t.Helper()
	e, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, Engine: e, ln: ln, conns: make(chan *wiretest.UpstreamConn, 1), over: make(chan struct{})}
	b.plain = wiretest.NewUpstream(t, b.hand)
	t.Cleanup(func() {
		close(b.over)
		_ = ln.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// hand gives the upstream's end to the test, which drives it.
func (b *bench) hand(c *wiretest.UpstreamConn) {
	b.conns <- c
	<-b.over
}

func (b *bench) dial(addr string) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// upstream returns both ends of an upstream connection.
func (b *bench) upstream() (ours net.Conn, theirs *wiretest.UpstreamConn) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	ours = b.dial(b.plain.Addr())
	return ours, <-b.conns
}

// upstreamTLS is upstream with TLS between them.
func (b *bench) upstreamTLS() (ours *tls.Conn, theirs *wiretest.UpstreamConn) {
	b.Helper()
	over := make(chan struct{})
	u := wiretest.NewTLSUpstream(b, func(c *wiretest.UpstreamConn) {
		b.conns <- c
		<-over
	})
	b.Cleanup(func() { close(over) }) // before that of u
	raw := b.dial(u.Addr())
	theirs = <-b.conns
	ours = tls.Client(&wire.Transport{Conn: raw}, &tls.Config{RootCAs: u.Roots(), ServerName: "127.0.0.1"})
	var both sync.WaitGroup
	both.Go(func() { _ = theirs.Conn.(*tls.Conn).Handshake() }) // its failure is ours too
	err := ours.Handshake()
	both.Wait()
	if err != nil {
		b.Fatal(err)
	}
	return ours, theirs
}

// client returns both ends of a client connection.
func (b *bench) client() (ours net.Conn, theirs *wiretest.Client) {
	b.Helper()
	ours, conn := b.raw()
	return ours, wiretest.NewClient(b, conn)
}

// raw returns both ends of a connection.
func (b *bench) raw() (ours, theirs net.Conn) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	theirs = b.dial(b.ln.Addr().String())
	ours, err := b.ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	return ours, theirs
}

// pair is a live session with both its peers.
type pair struct {
	*Session
	*recorder
	cl *wiretest.Client
	up *wiretest.UpstreamConn
}

func (b *bench) park(u Upstream, w Watcher) *Session {
	b.Helper()
	s, err := b.Park(u, w)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// join makes a live session of a parked one; the response is read.
func (b *bench) join(s *Session, up *wiretest.UpstreamConn, c Client) *pair {
	b.Helper()
	p := &pair{Session: s, recorder: newRecorder(), up: up}
	c.Conn, p.cl = b.client()
	c.Response = []byte(response)
	if err := s.Adopt(c, p.recorder); err != nil {
		b.Fatal(err)
	}
	p.cl.ExpectBytes(c.Response)
	return p
}

// pair makes a live session.
func (b *bench) pair(u Upstream, c Client) *pair {
	b.Helper()
	conn, up := b.upstream()
	u.Conn = conn
	return b.join(b.park(u, newRecorder()), up, c)
}

// told returns what was passed on in the session until now.
func (p *pair) told(b *bench) []passed {
	b.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.recorder.passed)
}

// recorder is a Handler and a Watcher that notes what it is told.
type recorder struct {
	mu       sync.Mutex
	opened   int
	heads    []head
	messages []message
	passed   []passed
	early    []string
	capture  bool
	alike    Alike
	evict    error
	panics   bool
	changed  chan struct{}
	ended    chan End
	lost     chan error
	closed   chan struct{} // of Closed, which a second call would panic on
}

type head struct {
	dir        Dir
	op         ws.OpCode
	head, tail string
	hasTail    bool
}

type passed struct {
	Passage
	dir   Dir
	heads int // shown before
}

type message struct {
	dir         Dir
	first, last string
}

func newRecorder() *recorder {
	return &recorder{ended: make(chan End, 2), lost: make(chan error, 2), closed: make(chan struct{}), changed: make(chan struct{}, 1)}
}

func (r *recorder) Opened() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
	if r.panics {
		panic("as the test wants")
	}
}

func (r *recorder) Head(dir Dir, op ws.OpCode, h []byte, end *Tail, at time.Duration) (bool, Alike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		panic("as the test wants")
	}
	tail := end.Bytes()
	r.heads = append(r.heads, head{dir, op, string(h), string(tail), tail != nil})
	r.notify()
	return r.capture, r.alike
}

func (r *recorder) Message(dir Dir, first, last []byte, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message{dir, string(first), string(last)})
	r.notify()
}

func (r *recorder) Passed(dir Dir, passages []Passage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		panic("as the test wants")
	}
	for _, p := range passages {
		r.passed = append(r.passed, passed{p, dir, len(r.heads)})
	}
	r.notify()
}

func (r *recorder) End(e End) { r.ended <- e }

func (r *recorder) Early(op ws.OpCode, payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.panics {
		panic("as the test wants")
	}
	r.early = append(r.early, string(payload))
	r.notify()
	return r.evict
}

func (r *recorder) Gone(err error) { r.lost <- err }
func (r *recorder) Closed()        { close(r.closed) }

func (r *recorder) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// seen returns what was noted so far.
func (r *recorder) seen() (heads []head, messages []message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heads), slices.Clone(r.messages)
}

// set changes what the recorder does.
func (r *recorder) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// await waits until ok, which is asked under the lock, is true.
func (r *recorder) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.After(5 * time.Second)
	for {
		r.mu.Lock()
		done := ok()
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.changed:
		case <-late:
			t.Fatalf("no %s within 5 s", what)
		}
	}
}

// wantEnd waits for the end of the session.
func (r *recorder) wantEnd(t testing.TB, by Side, code ws.StatusCode) End {
	t.Helper()
	select {
	case e := <-r.ended:
		if e.By != by || e.Code != code {
			t.Errorf("ended by %s with %d (%v), want %s with %d", e.By, e.Code, e.Err, by, code)
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatal("no end within 5 s")
	}
	return End{}
}

// wantGone waits for the end of the parked session.
func (r *recorder) wantGone(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.lost:
		return err
	case <-time.After(5 * time.Second):
		t.Fatal("not gone within 5 s")
	}
	return nil
}

// frame renders a frame of a server.
func frame(op ws.OpCode, payload string) []byte {
	return wire.AppendFrame(nil, wire.FromServer, op, []byte(payload))
}

func text(s string) []byte { return frame(ws.OpText, s) }

// join concatenates.
func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
