package sim_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/sim"
)

var zero = []byte{0, 0, 0, 0} // a mask that changes nothing

func TestBrokenFramingIsClosedAndCounted(t *testing.T) {
	f := func(name string, want ws.StatusCode, frames ...[]byte) {
		t.Helper()
		s := start(t, sim.Config{})
		p := open(t, s)
		p.bytes(bytes.Join(frames, nil)...)
		if code, reason := p.closed(); code != want || reason == "" {
			t.Errorf("%s: closed with %d %q, want %d", name, code, reason, want)
		}
		p.eof()
		_ = p.conn.Close()
		eventually(t, "the session has ended", func() bool { return s.Stats().Open == 0 })
		if st := s.Stats(); st.ProtocolErrors != 1 {
			t.Errorf("%s: %d protocol errors counted", name, st.ProtocolErrors)
		}
	}
	f("unmasked", 1002, []byte("\x81\x02Hi"))
	f("rsv1", 1002, []byte("\xc1\x81"), zero, []byte("a"))
	f("reserved opcode", 1002, []byte("\x83\x81"), zero, []byte("a"))
	f("fragmented ping", 1002, []byte("\x09\x80"), zero)
	f("long ping", 1002, []byte("\x89\xfe\x00\x7e"), zero)
	f("stray continuation", 1002, []byte("\x80\x81"), zero, []byte("a"))
	f("data inside a message", 1002, []byte("\x01\x81"), zero, []byte("a\x81\x81"), zero, []byte("b"))
	f("length not minimal", 1002, []byte("\x81\xfe\x00\x05"), zero, []byte("Hello"))
	f("length not minimal, 64 bit", 1002, []byte("\x81\xff\x00\x00\x00\x00\x00\x00\x00\x05"), zero, []byte("Hello"))
	f("length over 63 bit", 1002, []byte("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xfc"), zero)
	f("close of one byte", 1002, []byte("\x88\x81"), zero, []byte("\x03"))
	f("close 1005", 1002, []byte("\x88\x82"), zero, []byte("\x03\xed"))
	f("close 999", 1002, []byte("\x88\x82"), zero, []byte("\x03\xe7"))
	f("close reason", 1002, []byte("\x88\x84"), zero, []byte("\x03\xe8\xc3\x28"))
	f("text not UTF-8", 1007, []byte("\x81\x82"), zero, []byte("\xc3\x28"))
}

func TestOversizedMessageIsClosedBeforeItIsRead(t *testing.T) {
	p := open(t, start(t, sim.Config{}))
	p.bytes(append([]byte("\x02\x81"), append(zero, 'a')...)...)
	p.bytes(append([]byte("\x80\xff\x7f\xff\xff\xff\xff\xff\xff\xff"), zero...)...)
	if code, _ := p.closed(); code != 1009 {
		t.Errorf("closed with %d, want 1009", code)
	}
}

func TestFragmentsWithAPingInside(t *testing.T) {
	p := open(t, start(t, sim.Config{}))
	msg := []byte(`{"type":"input_audio_buffer.clear"}`)
	p.frame(ws.NewFrame(ws.OpText, false, msg[:10]))
	p.frame(ws.NewPingFrame([]byte("mid")))
	p.frame(ws.NewFrame(ws.OpContinuation, false, nil))
	p.frame(ws.NewFrame(ws.OpContinuation, true, msg[10:]))
	if f, err := p.read(); err != nil || f.Header.OpCode != ws.OpPong || string(f.Payload) != "mid" {
		t.Errorf("got %x %q, error %v, want the pong", f.Header.OpCode, f.Payload, err)
	}
	p.expect("input_audio_buffer.cleared")
}

// TestEarlyBytes sends a frame in one write with the upgrade request, whole and cut in two.
func TestEarlyBytes(t *testing.T) {
	f := func(late int) {
		t.Helper()
		s := start(t, sim.Config{DialDelay: 20 * time.Millisecond})
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		frame := ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte(`{"type":"input_audio_buffer.clear"}`))))
		head := "GET /v1/realtime?model=m HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		cut := len(frame) - late
		if _, err := conn.Write(append([]byte(head), frame[:cut]...)); err != nil {
			t.Fatal(err)
		}
		const accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
		got := make([]byte, 0, 512)
		for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("\r\n\r\n")); got = append(got, one[0]) {
			if _, err := conn.Read(one); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.HasPrefix(string(got), "HTTP/1.1 101 ") || !strings.Contains(string(got), accept) {
			t.Fatalf("head %s", got)
		}
		p := &peer{t: t, conn: conn, r: conn}
		p.bytes(frame[cut:]...)
		p.expect("session.created")
		p.expect("input_audio_buffer.cleared")
	}
	f(0)
	f(1)
	f(40)
}
