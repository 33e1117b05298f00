package sim

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

func TestPlainAppend(t *testing.T) {
	f := func(msg, audio string, ok bool) {
		t.Helper()
		got, _, plain := plainAppend([]byte(msg))
		if plain != ok || string(got) != audio {
			t.Errorf("%s: %q %v, want %q %v", msg, got, plain, audio, ok)
		}
	}
	f(`{"type":"input_audio_buffer.append","audio":"AAAA"}`, "AAAA", true)
	f(`{"audio":"AAAA","type":"input_audio_buffer.append"}`, "AAAA", true)
	f(` { "event_id" : "e" , "type" : "input_audio_buffer.append", "audio" : "" } `, "", true)
	f(`{"type":"input_audio_buffer.append","audio":"A\u0041"}`, "", false)
	f(`{"type":"input_audio_buffer.append","audio":7}`, "", false)
	f(`{"type":"input_audio_buffer.append"}`, "", false)
	f(`{"type":"input_audio_buffer.commit","audio":"AAAA"}`, "AAAA", false)
	f(`{"type":"input_audio_buffer.append","audio":"AAAA"}}`, "AAAA", false)
	f(`{"type":"input_audio_buffer.append","audio":"AAAA",}`, "", false)
	f(`{}`, "", false)
	f(``, "", false)
}

// FuzzPlainAppend holds the short way to the long one.
func FuzzPlainAppend(f *testing.F) {
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":"AAAA"}`))
	f.Add([]byte(`{ "audio":"A\"", "type":"input_audio_buffer.append", "n":[1] } `))
	f.Fuzz(func(t *testing.T, msg []byte) {
		audio, eventID, ok := plainAppend(msg)
		// Text that is no UTF-8 never gets here, and a bare control character in a string is refused as base64, not as JSON.
		if !ok || !utf8.Valid(msg) || bytes.ContainsFunc(msg, unicode.IsControl) {
			return
		}
		var ev map[string]string
		if err := json.Unmarshal(msg, &ev); err != nil {
			t.Fatalf("%q is taken, but %v", msg, err)
		}
		if ev["type"] != appendType || ev["audio"] != string(audio) || ev["event_id"] != string(eventID) {
			t.Fatalf("%q: audio %q, event_id %q", msg, audio, eventID)
		}
	})
}

// discard is a connection that swallows what is written.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error)        { return len(b), nil }
func (discard) SetWriteDeadline(_ time.Time) error { return nil }

// TestAppendAllocations: a generator on the same host sends tens of thousands of appends a second.
func TestAppendAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("pools are not kept under the race detector")
	}
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(s, discard{}, nil)
	pcm := make([]byte, 960)
	pcm[0] = 1
	msg := []byte(`{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(pcm) + `"}`)
	c.handle(ws.OpText, msg)
	if n := testing.AllocsPerRun(1000, func() { c.handle(ws.OpText, msg) }); n > 0 {
		t.Errorf("%v allocations for an append, want none", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	c := newConn(s, discard{}, nil)
	pcm := make([]byte, 960)
	pcm[0] = 1
	msg := []byte(`{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(pcm) + `"}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		c.handle(ws.OpText, msg)
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add([]byte("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"))
	f.Add([]byte("\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bufio.NewReader(bytes.NewReader(b)), ws.StateServerSide)
		if err != nil {
			return
		}
		want, err := ws.CompileFrame(ws.Frame{Header: h})
		if err != nil || string(want) != string(b[:len(want)]) {
			t.Errorf("%x was read as %+v, which is written as %x", b, h, want)
		}
	})
}
