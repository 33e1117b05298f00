package sim_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/sim"
)

func TestCommitAndClear(t *testing.T) {
	s := start(t, sim.Config{AudioMS: 100})
	p := open(t, s)
	p.send(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":null,"transcription":{"model":"t"}}}}}`)
	if e := p.expect("session.updated"); e.get("session.audio.input.turn_detection") != nil || e.str("session.audio.input.transcription.model") != "t" {
		t.Errorf("got %s", e.raw)
	}
	commit := `{"type":"input_audio_buffer.commit","event_id":"c"}`
	empty := func() {
		t.Helper()
		p.send(commit)
		if e := p.expect("error"); e.str("error.code") != "input_audio_buffer_commit_empty" || e.str("error.event_id") != "c" {
			t.Errorf("got %s", e.raw)
		}
	}
	empty()
	p.send(audioAppend(99, 1))
	empty()
	p.send(audioAppend(150, 1))
	p.send(`{"type":"input_audio_buffer.clear"}`)
	p.expect("input_audio_buffer.cleared")
	empty()
	p.send(audioAppend(150, 1))
	p.send(commit)
	id := p.expect("input_audio_buffer.committed").str("item_id")
	if e := p.expect("conversation.item.added"); e.str("item.id") != id || e.str("item.role") != "user" ||
		!strings.Contains(e.raw, `"content":[{"type":"input_audio","transcript":null}]`) {
		t.Errorf("got %s", e.raw)
	}
	p.expect("conversation.item.done")
	if e := p.expect("conversation.item.input_audio_transcription.completed"); e.str("transcript") != "150 ms of audio" {
		t.Errorf("got %s", e.raw)
	}
	p.send(respond)
	events := p.until("response.done")
	if got := textOf(events, "response.output_audio_transcript.delta"); got != "I heard 150 ms of audio." {
		t.Errorf("said %q", got)
	}
	if st := s.Stats(); st.Turns != 1 || st.AudioMessages != 3 || st.AudioBytesIn != (99+150+150)*48 {
		t.Errorf("stats %+v", st)
	}
}

// TestVoiceActivityDependsOnTheAudioAlone cuts one recording in many ways: 310 ms of silence, 200 ms of speech with a
// pause of 100 ms in it, 700 ms of silence.
func TestVoiceActivityDependsOnTheAudioAlone(t *testing.T) {
	var pcm []byte
	for _, part := range []struct {
		ms     int
		sample byte
	}{{310, 0}, {50, 9}, {100, 0}, {50, 9}, {700, 0}} {
		for range part.ms * 48 {
			pcm = append(pcm, part.sample)
		}
	}
	f := func(name, update string, piece int, want string) {
		t.Helper()
		p := open(t, start(t, sim.Config{AudioMS: 100}))
		if update != "" {
			p.send(update)
			p.expect("session.updated")
		}
		for rest := pcm; len(rest) > 0; {
			n := min(piece, len(rest))
			p.send(`{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(rest[:n]) + `"}`)
			rest = rest[n:]
		}
		want = strings.TrimSpace(want)
		var got []string
		for len(got) <= strings.Count(want, "\n") {
			e := p.next()
			switch e.Type {
			case "input_audio_buffer.speech_started":
				got = append(got, fmt.Sprint(e.Type, " ", e.num("audio_start_ms")))
			case "input_audio_buffer.speech_stopped":
				got = append(got, fmt.Sprint(e.Type, " ", e.num("audio_end_ms")))
			case "response.output_audio_transcript.done":
				got = append(got, fmt.Sprint(e.Type, " ", e.str("transcript")))
			case "input_audio_buffer.committed", "conversation.item.done", "response.created", "response.done":
				got = append(got, e.Type)
			}
		}
		if have := strings.Join(got, "\n"); have != want {
			t.Errorf("%s, pieces of %d:\n%s\nwant:\n%s", name, piece, have, want)
		}
	}
	const defaults = `
input_audio_buffer.speech_started 10
input_audio_buffer.speech_stopped 1010
input_audio_buffer.committed
conversation.item.done
response.created
response.output_audio_transcript.done I heard 1000 ms of audio.
conversation.item.done
response.done`
	for _, piece := range []int{len(pcm), 960, 4801, 331} {
		f("defaults", "", piece, defaults)
	}
	// A shorter silence ends the turn in the pause; no response is made when none is wanted.
	f("short", `{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"server_vad","silence_duration_ms":80,"prefix_padding_ms":0,"create_response":false}}}}}`, 960, `
input_audio_buffer.speech_started 310
input_audio_buffer.speech_stopped 440
input_audio_buffer.committed
conversation.item.done
input_audio_buffer.speech_started 460
input_audio_buffer.speech_stopped 590
input_audio_buffer.committed
conversation.item.done`)
}

func TestSpeechInterrupts(t *testing.T) {
	p := open(t, start(t, sim.Config{AudioMS: 60_000, RealtimeFactor: 1}))
	p.send(respond)
	p.until("response.output_audio.delta")
	p.send(audioAppend(20, 1))
	events := p.until("response.done")
	if !strings.Contains(types(events), "input_audio_buffer.speech_started") {
		t.Errorf("events %s", types(events))
	}
	if done := events[len(events)-1]; done.str("response.status") != "cancelled" || done.str("response.status_details.reason") != "turn_detected" {
		t.Errorf("got %s", done.raw)
	}
	p.send(audioAppend(500, 0))
	p.expect("input_audio_buffer.speech_stopped")
}

func TestSpeechDoesNotInterruptWhenToldNotTo(t *testing.T) {
	p := open(t, start(t, sim.Config{AudioMS: 2000, ChunkMS: 20, RealtimeFactor: 20}))
	p.send(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"server_vad","interrupt_response":false}}}}}`)
	p.expect("session.updated")
	p.send(respond)
	p.until("response.output_audio.delta")
	p.send(audioAppend(20, 1))
	events := p.until("response.done")
	if done := events[len(events)-1]; done.str("response.status") != "completed" {
		t.Errorf("got %s", done.raw)
	}
}

func TestTranscriptionSessionGivesNoResponses(t *testing.T) {
	s := start(t, sim.Config{})
	p, err := tryConnect(t, s, "?intent=transcription", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.expect("session.created")
	p.send(audioAppend(100, 1))
	p.send(audioAppend(500, 0))
	p.until("conversation.item.done")
	p.send(respond)
	p.expect("error")
}
