package wiretest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestClientAndUpstreamTalk(t *testing.T) {
	u := NewUpstream(t, Ready)
	c := Connect(t, u.Addr(), "X-Test: 1")
	c.ExpectText(SessionCreated)
	c.SendHex(Hello)
	c.ExpectText("Hello")
	c.SendFrame(false, Text, []byte("a"))
	c.SendFrame(true, Ping, []byte("p"))
	c.SendFrame(true, Continuation, []byte("b"))
	if f := c.ReadFrame(); f.Op != Text || f.Fin || string(f.Payload) != "a" {
		t.Fatalf("got %+v", f)
	}
	if f := c.ReadFrame(); f.Op != Pong || string(f.Payload) != "p" {
		t.Fatalf("got %+v", f)
	}
	if f := c.ReadFrame(); f.Op != Continuation || !f.Fin {
		t.Fatalf("got %+v", f)
	}
	c.SendClose(1000, "bye")
	if reason := c.ExpectClose(1000); reason != "bye" {
		t.Fatalf("reason %q", reason)
	}
	c.ExpectEOF()
	u.Await("end", func(u *Upstream) bool { return u.Open() == 0 })
	up := u.Conn(1)
	if u.Dials() != 1 || u.MaxOpen() != 1 || up.N != 1 {
		t.Fatalf("%d dials, %d at most, number %d", u.Dials(), u.MaxOpen(), up.N)
	}
	if !strings.Contains(up.Head(), "\r\nX-Test: 1\r\n") || !strings.HasPrefix(string(up.Received()), up.Head()) {
		t.Fatalf("head %q, received %q", up.Head(), up.Received())
	}
}

func TestUpstreamOverTLS(t *testing.T) {
	u := NewTLSUpstream(t, nil)
	conn, err := tls.Dial("tcp", u.Addr(), &tls.Config{RootCAs: u.Roots()})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(t, conn)
	c.SendString(HS)
	c.Expect101()
	c.SendText("x")
	c.ExpectText("x")
	if got := u.URL().String(); got != "wss://"+u.Addr() {
		t.Fatal(got)
	}
}

func TestUpstreamRefusesAndListensAgain(t *testing.T) {
	u := NewUpstream(t, func(c *UpstreamConn) { c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno") })
	u.Refuse()
	u.Listen()
	c := Dial(t, u.Addr())
	c.SendString(HSWith("/x?y=1"))
	if _, body := c.ExpectStatus(401); body != "no" {
		t.Fatalf("body %q", body)
	}
	c.ExpectEOF()
	if got := u.Conn(1).Head(); !strings.HasPrefix(got, "GET /x?y=1 HTTP/1.1\r\n") {
		t.Fatalf("head %q", got)
	}
}

func TestResetIsNotAnEnd(t *testing.T) {
	u := NewUpstream(t, func(c *UpstreamConn) { c.Accept(); c.RST() })
	c := Connect(t, u.Addr())
	if _, err := c.TryReadFrame(); err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want a reset", err)
	}
}

func TestSilenceAndDrip(t *testing.T) {
	u := NewUpstream(t, Echo)
	c := Dial(t, u.Addr())
	c.Drip([]byte(HS), 40, time.Millisecond)
	c.Expect101()
	c.ExpectSilence(10 * time.Millisecond)
	c.SendText("x")
	c.ExpectHex("81 01 78")
}

func TestStrictReader(t *testing.T) {
	read := func(masked bool, s string) error {
		d := frameReader{r: bytes.NewReader(Hex(t, s)), masked: masked}
		for {
			if _, err := d.next(); err != nil {
				return err
			}
		}
	}
	good := func(masked bool, s string) {
		t.Helper()
		if err := read(masked, s); err != io.EOF {
			t.Errorf("%s: %v", s, err)
		}
	}
	bad := func(masked bool, s string) {
		t.Helper()
		if err := read(masked, s); err == nil || err == io.EOF {
			t.Errorf("%s: accepted", s)
		}
	}
	good(true, Hello)
	good(false, "81 02 48 69")
	good(false, "01 01 61 89 00 80 01 62")
	good(false, "88 00")
	good(false, "88 02 03 e8")
	good(false, "88 05 0f a0 e2 82 ac")
	bad(true, "81 02 48 69")     // no mask
	bad(false, Hello)            // mask
	bad(false, "c1 01 61")       // reserved bit
	bad(false, "83 00")          // reserved opcode
	bad(false, "8b 00")          // reserved opcode
	bad(false, "09 00")          // fragmented ping
	bad(false, "89 7e 00 7e")    // long ping
	bad(false, "81 7e 00 01 61") // length not minimal
	bad(false, "81 7f 00 00 00 00 00 00 00 01 61")
	bad(false, "82 7f ff ff ff ff ff ff ff ff")
	bad(false, "80 00")             // nothing to continue
	bad(false, "01 00 81 00")       // a message inside a message
	bad(false, "81 02 61")          // cut short
	bad(false, "88 01 03")          // half a code
	bad(false, "88 02 03 ee")       // 1006
	bad(false, "88 02 03 e7")       // 999
	bad(false, "88 04 03 e8 c3 28") // not UTF-8
	bad(false, "88 00 81 00")       // behind a Close
}

func TestFrameRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, 65536} {
		for _, masked := range []bool{false, true} {
			f := Frame{Fin: true, Op: Binary, Masked: masked, Payload: bytes.Repeat([]byte{'x'}, n)}
			if masked {
				f.Mask = [4]byte{1, 2, 3, 4}
			}
			d := frameReader{r: bytes.NewReader(f.Append(nil)), masked: masked}
			got, err := d.next()
			if err != nil || !bytes.Equal(got.Payload, f.Payload) || got.Mask != f.Mask {
				t.Errorf("%d bytes, masked %t: %v", n, masked, err)
			}
		}
	}
}
