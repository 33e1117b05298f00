package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"sync/atomic"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/sim"
)

// Audio is PCM16 at 24 kHz: 48 bytes to the millisecond.
const bytesPerMS = 48

var (
	appendHead = []byte(`{"type":"input_audio_buffer.append","audio":"`)
	appendTail = []byte(`"}`)
	deltaKey   = []byte(`"delta":"`)
	// muteUpstream keeps the upstream from hearing a turn in every chunk.
	muteUpstream = []byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`)
)

// stampChars is how many characters of base64 a stamp takes: a whole number, so that only these change from chunk to chunk.
const stampChars = sim.StampSize / 3 * 4

// microphone sends one chunk of audio every period over one session, and reads what comes back. The upstream sends every
// stamped chunk back, as the scripted one does with Echo.
type microphone struct {
	stream uint32
	s      *socket
	period time.Duration
	chunks int

	message []byte // an append whose stamp is written anew for each chunk
	track   *track
	sent    atomic.Int64
}

// newMicrophone returns one that will send so many chunks of a period's length. The session must be ready.
func newMicrophone(stream uint32, s *socket, period time.Duration, chunks int) *microphone {
	pcm := make([]byte, max(int(period.Milliseconds())*bytesPerMS, sim.StampSize))
	for i := range pcm {
		pcm[i] = byte(i*7 + 1)
	}
	m := &microphone{stream: stream, s: s, period: period, chunks: chunks, track: newTrack(period, chunks)}
	m.message = append(m.message, appendHead...)
	m.message = base64.StdEncoding.AppendEncode(m.message, pcm)
	m.message = append(m.message, appendTail...)
	return m
}

// mute switches the upstream's turn detection off.
func (s *socket) mute() error {
	if err := s.writeText(muteUpstream); err != nil {
		return err
	}
	return s.await(dialect.EventSessionUpdated)
}

// speak sends the chunks: chunk n is due n periods after start, however late the ones before it were.
func (m *microphone) speak(ctx context.Context, start time.Time) error {
	var pcm [sim.StampSize]byte
	for n := range m.chunks {
		due := start.Add(time.Duration(n) * m.period)
		if !sleepUntil(ctx, due) {
			return context.Cause(ctx)
		}
		now := time.Now()
		sim.Stamp{Stream: m.stream, Seq: uint32(n), Sent: now.UnixNano()}.Put(pcm[:])
		base64.StdEncoding.Encode(m.message[len(appendHead):], pcm[:])
		m.sent.Store(int64(n) + 1) // before the write: the echo may be read before it returns
		m.track.lateBy(now.Sub(due))
		if err := m.s.writeText(m.message); err != nil {
			return err
		}
	}
	return nil
}

// listen reads echoes until as many came as chunks will be sent, or the session ends.
func (m *microphone) listen(start time.Time) error {
	for m.track.echoes < uint64(m.chunks) {
		msg, err := m.s.read()
		if err != nil {
			return err
		}
		now := time.Now()
		if s, ok := stampOf(msg); ok && s.Stream == m.stream && int(s.Seq) < m.chunks {
			m.track.arrived(s, start.Add(time.Duration(s.Seq)*m.period), now)
		}
	}
	return nil
}

// stampOf reads the stamp in a delta of audio.
func stampOf(msg []byte) (sim.Stamp, bool) {
	at := bytes.Index(msg, deltaKey)
	if at < 0 || len(msg) < at+len(deltaKey)+stampChars {
		return sim.Stamp{}, false
	}
	var pcm [sim.StampSize]byte
	if _, err := base64.StdEncoding.Decode(pcm[:], msg[at+len(deltaKey):][:stampChars]); err != nil {
		return sim.Stamp{}, false
	}
	return sim.ReadStamp(pcm[:])
}
