package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// record is a connection that keeps what is written last.
type record struct {
	net.Conn
	last []byte
}

func (r *record) Write(b []byte) (int, error)        { r.last = append(r.last[:0], b...); return len(b), nil }
func (r *record) SetWriteDeadline(_ time.Time) error { return nil }

func echoing(t *testing.T) (*conn, *record) {
	t.Helper()
	s, err := New(Config{Echo: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &record{}
	return newConn(s, r, nil), r
}

func appendOf(pcm []byte) []byte {
	return []byte(`{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(pcm) + `"}`)
}

func TestEchoSendsAStampedChunkBackWithItsArrival(t *testing.T) {
	c, r := echoing(t)
	c.handle(ws.OpText, []byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`))
	for echo := range uint32(2) {
		pcm := bytes.Repeat([]byte{7, 8, 9}, 320)
		sent := Stamp{Stream: 3, Seq: 40 + echo, Sent: time.Now().UnixNano()}
		sent.Put(pcm)
		c.handle(ws.OpText, appendOf(pcm))
		f, err := ws.ReadFrame(bytes.NewReader(r.last))
		if err != nil {
			t.Fatal(err)
		}
		var ev struct{ Type, Delta string }
		if err := json.Unmarshal(f.Payload, &ev); err != nil || ev.Type != "response.output_audio.delta" {
			t.Fatalf("%v: %s", err, f.Payload)
		}
		back, err := base64.StdEncoding.DecodeString(ev.Delta)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := ReadStamp(back)
		if !ok || got.Stream != 3 || got.Seq != sent.Seq || got.Sent != sent.Sent || got.Echo != echo || got.Arrived < sent.Sent || got.Arrived > time.Now().UnixNano() {
			t.Errorf("stamp %+v of %+v", got, sent)
		}
		if !bytes.Equal(back[StampSize:], pcm[StampSize:]) {
			t.Error("the rest of the audio is not the same")
		}
	}
}

func TestEchoLeavesOtherAudioAlone(t *testing.T) {
	c, r := echoing(t)
	c.handle(ws.OpText, []byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`))
	r.last = nil
	for _, pcm := range [][]byte{nil, make([]byte, 960), []byte("rtdstamp"), bytes.Repeat([]byte{1}, 960)} {
		if c.handle(ws.OpText, appendOf(pcm)); len(r.last) > 0 {
			t.Errorf("%d bytes without a stamp are answered with %s", len(pcm), r.last)
		}
	}
}
