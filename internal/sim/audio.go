package sim

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// Audio is PCM16 at 24 kHz, whatever format a session names: 48 bytes, or 64 characters of base64, to the millisecond.
const (
	bytesPerMS  = 48
	base64PerMS = 64
)

// minCommitMS is the least audio the provider accepts in a commit.
const minCommitMS = 100

// tone is a sine of 1 kHz in base64. A millisecond is one period and a whole number of base64 groups, so that audio of
// any length is a prefix of it, and any deltas in a row play on without a click.
type tone string

func newTone(ms int) tone {
	var period [bytesPerMS]byte
	for i := range bytesPerMS / 2 {
		sample := int16(8000 * math.Sin(2*math.Pi*float64(i)/(bytesPerMS/2)))
		binary.LittleEndian.PutUint16(period[2*i:], uint16(sample))
	}
	pcm := make([]byte, 0, ms*bytesPerMS)
	for range ms {
		pcm = append(pcm, period[:]...)
	}
	return tone(base64.StdEncoding.EncodeToString(pcm))
}

// hearing is the state of the input audio. A byte that is not zero is speech; nothing else is listened for, so that what
// is heard depends on the bytes alone and not on how they were cut into messages, nor on time.
type hearing struct {
	total    int64 // bytes since the session began
	pending  int64 // bytes not committed yet
	speaking bool
	silence  int64  // length of the run of zeros at the end, while speaking
	itemID   string // of the item this speech will become
}

var pcmBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (c *conn) appendAudio(b *batch, ev *clientEvent) {
	if ev.Audio == nil {
		c.fault(b, fault{code: "missing_required_parameter", param: "audio", message: "the event has no audio", eventID: ev.EventID})
		return
	}
	c.takeAudio(b, []byte(*ev.Audio), []byte(ev.EventID))
}

func (c *conn) takeAudio(b *batch, encoded, eventID []byte) {
	c.s.counters.audioMessages.Add(1)
	buf := pcmBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 1<<20 {
			pcmBuffers.Put(buf)
		}
	}()
	pcm, err := base64.StdEncoding.AppendDecode((*buf)[:0], encoded)
	*buf = pcm
	if err != nil {
		c.fault(b, fault{code: "invalid_value", param: "audio", message: "audio is not base64", eventID: string(eventID)})
		return
	}
	c.audioIn.Add(int64(len(pcm)))
	c.s.counters.audioBytesIn.Add(int64(len(pcm)))
	c.hear(b, pcm)
	if c.s.cfg.Echo {
		c.echo(b, pcm)
	}
}

// hear runs voice activity detection over audio, if the session has it on.
func (c *conn) hear(b *batch, pcm []byte) {
	h := &c.hearing
	td := c.turnDetection()
	for len(pcm) > 0 {
		n := len(pcm)
		switch {
		case td == nil:
		case !h.speaking:
			if n = firstSound(pcm); n < len(pcm) {
				h.take(n)
				c.speechStarted(b, td)
				pcm = pcm[n:]
				continue
			}
		default:
			limit := max(td.SilenceDurationMS, 1) * bytesPerMS
			var ended bool
			if n, ended = h.untilSilence(pcm, limit); ended {
				h.take(n)
				c.speechStopped(b, td)
				pcm = pcm[n:]
				continue
			}
		}
		h.take(n)
		pcm = pcm[n:]
	}
}

func (h *hearing) take(n int) {
	h.total += int64(n)
	h.pending += int64(n)
}

func firstSound(pcm []byte) int {
	for i, v := range pcm {
		if v != 0 {
			return i
		}
	}
	return len(pcm)
}

// untilSilence is how much of pcm belongs to the speech, and whether it ends there with limit zeros.
func (h *hearing) untilSilence(pcm []byte, limit int64) (int, bool) {
	for i, v := range pcm {
		if v != 0 {
			h.silence = 0
		} else if h.silence++; h.silence >= limit {
			return i + 1, true
		}
	}
	return len(pcm), false
}

// turnDetection avoids making a default session for every append.
func (c *conn) turnDetection() *turnDetection {
	if c.session == nil {
		return &sharedTurnDetection
	}
	return c.session.settings().turnDetection
}

var sharedTurnDetection = defaultTurnDetection() // read only

func (c *conn) speechStarted(b *batch, td *turnDetection) {
	h := &c.hearing
	h.speaking, h.silence, h.itemID = true, 0, c.newID("item")
	h.pending = min(h.pending, td.PrefixPaddingMS*bytesPerMS) // the silence before it is not part of the turn
	start := max(h.total/bytesPerMS-td.PrefixPaddingMS, 0)
	c.begin(b, "input_audio_buffer.speech_started").num("audio_start_ms", start).str("item_id", h.itemID).end()
	if td.InterruptResponse {
		c.interrupt(b)
	}
}

func (c *conn) speechStopped(b *batch, td *turnDetection) {
	h := &c.hearing
	c.begin(b, "input_audio_buffer.speech_stopped").num("audio_end_ms", h.total/bytesPerMS).str("item_id", h.itemID).end()
	c.commit(b)
	if td.CreateResponse && !c.transcription {
		c.startResponse(b, responseParams{}, "")
	}
}

func (c *conn) commitAudio(b *batch, ev *clientEvent) {
	if ms := c.hearing.pending / bytesPerMS; ms < minCommitMS {
		c.fault(b, fault{code: "input_audio_buffer_commit_empty", eventID: ev.EventID,
			message: fmt.Sprintf("the input audio buffer holds %d ms of audio, a commit needs %d", ms, minCommitMS)})
		return
	}
	c.commit(b)
}

func (c *conn) clearAudio(b *batch, _ *clientEvent) {
	c.hearing = hearing{total: c.hearing.total}
	c.begin(b, "input_audio_buffer.cleared").end()
}

// commit turns the pending audio into a user's item.
func (c *conn) commit(b *batch) {
	h := &c.hearing
	id, ms := h.itemID, h.pending/bytesPerMS
	if id == "" {
		id = c.newID("item")
	}
	*h = hearing{total: h.total}
	heard := fmt.Sprintf("%d ms of audio", ms)
	it := &item{ID: id, Object: "realtime.item", Type: "message", Status: "completed", Role: "user", Content: []part{{Type: "input_audio"}}, audioMS: ms}
	c.talk.Lock()
	previous := c.conversation.add(it)
	c.conversation.last = input{kind: inputAudio, ms: ms}
	c.conversation.audioTokens += inputAudioTokens(ms)
	c.talk.Unlock()
	c.s.counters.turns.Add(1)

	c.begin(b, "input_audio_buffer.committed").strOrNull("previous_item_id", previous).str("item_id", id).end()
	c.itemAdded(b, previous, it)
	c.itemDone(b, previous, it)
	if c.session != nil && c.session.settings().transcribe {
		c.begin(b, "conversation.item.input_audio_transcription.completed").str("item_id", id).num("content_index", 0).str("transcript", heard).end()
	}
}

// The provider counts a token for 100 ms of a user's audio and for 50 ms of its own.
func inputAudioTokens(ms int64) int64  { return (ms + 99) / 100 }
func outputAudioTokens(ms int64) int64 { return (ms + 49) / 50 }
