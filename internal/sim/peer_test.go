package sim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/sim"
)

const patience = 10 * time.Second

// start serves cfg on loopback until the test ends, and holds the server to leaving nothing behind.
func start(t testing.TB, cfg sim.Config) *sim.Server {
	t.Helper()
	before := runtime.NumGoroutine()
	s, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		eventually(t, "goroutines are back to the baseline", func() bool { return runtime.NumGoroutine() <= before })
	})
	return s
}

// eventually waits for a condition that another process of the machine, or another goroutine, brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// peer is a client session.
type peer struct {
	t    testing.TB
	conn net.Conn
	r    io.Reader
	hs   ws.Handshake
}

// event is a server event.
type event struct {
	raw  string
	Type string `json:"type"`
	m    map[string]any
}

// get walks into the event: "response.status", "response.output.0.id".
func (e event) get(path string) any {
	var v any = e.m
	for k := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[k]
		case []any:
			var i int
			if _, err := fmt.Sscan(k, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

func (e event) str(path string) string { s, _ := e.get(path).(string); return s }
func (e event) num(path string) int    { n, _ := e.get(path).(float64); return int(n) }

func dialer(s *sim.Server) ws.Dialer {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CAPEM())
	return ws.Dialer{Timeout: patience, TLSConfig: &tls.Config{RootCAs: roots}}
}

func tryConnect(t testing.TB, s *sim.Server, query string, header http.Header) (*peer, error) {
	d := dialer(s)
	d.Header = ws.HandshakeHeaderHTTP(header)
	conn, br, hs, err := d.Dial(context.Background(), s.URL()+query)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &peer{t: t, conn: conn, r: conn, hs: hs}
	if br != nil {
		early := make([]byte, br.Buffered())
		_, _ = io.ReadFull(br, early)
		p.r = io.MultiReader(strings.NewReader(string(early)), conn)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return p, nil
}

// connect opens a session without waiting for session.created.
func connect(t testing.TB, s *sim.Server) *peer {
	t.Helper()
	p, err := tryConnect(t, s, "?model=gpt-realtime", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open opens a session and takes its session.created.
func open(t testing.TB, s *sim.Server) *peer {
	t.Helper()
	p := connect(t, s)
	p.expect("session.created")
	return p
}

func (p *peer) send(msg string) {
	p.t.Helper()
	p.frame(ws.NewTextFrame([]byte(msg)))
}

func (p *peer) frame(f ws.Frame) {
	p.t.Helper()
	if err := ws.WriteFrame(p.conn, ws.MaskFrame(f)); err != nil {
		p.t.Fatal(err)
	}
}

// bytes sends what stands there.
func (p *peer) bytes(b ...byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() (ws.Frame, error) {
	h, err := ws.ReadHeader(p.r)
	if err != nil {
		return ws.Frame{}, err
	}
	if err := ws.CheckHeader(h, ws.StateClientSide); err != nil {
		return ws.Frame{}, err
	}
	f := ws.Frame{Header: h, Payload: make([]byte, h.Length)}
	_, err = io.ReadFull(p.r, f.Payload)
	return f, err
}

func (p *peer) next() event {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	if f.Header.OpCode != ws.OpText {
		p.t.Fatalf("got opcode %x %q, want an event", f.Header.OpCode, f.Payload)
	}
	return p.parse(f.Payload)
}

func (p *peer) parse(payload []byte) event {
	p.t.Helper()
	e := event{raw: string(payload)}
	if err := json.Unmarshal(payload, &e.m); err != nil {
		p.t.Fatalf("%v in %s", err, payload)
	}
	e.Type = e.str("type")
	if want := `{"type":"` + e.Type + `","event_id":"event_`; !strings.HasPrefix(e.raw, want) {
		p.t.Fatalf("event %.80s does not begin with %s", e.raw, want)
	}
	return e
}

func (p *peer) expect(typ string) event {
	p.t.Helper()
	e := p.next()
	if e.Type != typ {
		p.t.Fatalf("got %.300s, want %s", e.raw, typ)
	}
	return e
}

// until collects events up to and including one of a type.
func (p *peer) until(typ string) []event {
	p.t.Helper()
	var all []event
	for {
		e := p.next()
		if all = append(all, e); e.Type == typ {
			return all
		}
		if e.Type == "error" {
			p.t.Fatalf("got %s on the way to %s", e.raw, typ)
		}
	}
}

// closed skips events and returns the server's Close.
func (p *peer) closed() (ws.StatusCode, string) {
	p.t.Helper()
	for {
		f, err := p.read()
		if err != nil {
			p.t.Fatalf("read: %v, want a Close", err)
		}
		if f.Header.OpCode == ws.OpClose {
			return ws.ParseCloseFrameData(f.Payload)
		}
	}
}

// eof expects the end of the connection and nothing before it.
func (p *peer) eof() {
	p.t.Helper()
	if f, err := p.read(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("got frame %x %.100q and error %v, want EOF", f.Header.OpCode, f.Payload, err)
	}
}

// types renders events by type, repeated ones once.
func types(events []event) string {
	var out []string
	for _, e := range events {
		if n := len(out); n == 0 || out[n-1] != e.Type {
			out = append(out, e.Type)
		}
	}
	return strings.Join(out, "\n")
}

// audioOf decodes and joins the audio deltas.
func audioOf(t testing.TB, events []event, name string) []byte {
	t.Helper()
	var pcm []byte
	for _, e := range events {
		if e.Type == name {
			b, err := base64.StdEncoding.DecodeString(e.str("delta"))
			if err != nil {
				t.Fatal(err)
			}
			pcm = append(pcm, b...)
		}
	}
	return pcm
}

func textOf(events []event, name string) string {
	var s strings.Builder
	for _, e := range events {
		if e.Type == name {
			s.WriteString(e.str("delta"))
		}
	}
	return s.String()
}

func say(text string) string {
	return fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
}

// audioAppend is an append of ms milliseconds of samples.
func audioAppend(ms int, sample byte) string {
	pcm := make([]byte, ms*48)
	for i := range pcm {
		pcm[i] = sample
	}
	return `{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(pcm) + `"}`
}

const respond = `{"type":"response.create"}`
