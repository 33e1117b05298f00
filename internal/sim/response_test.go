package sim_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

func TestSpokenResponse(t *testing.T) {
	f := func(cfg sim.Config, audio, transcript, want string) {
		t.Helper()
		s := start(t, cfg)
		p := open(t, s)
		p.send(say("one two"))
		p.send(respond)
		events := p.until("response.done")
		if got := types(events); got != strings.TrimSpace(want) {
			t.Errorf("events:\n%s\nwant:\n%s", got, want)
		}
		if got := textOf(events, transcript+".delta"); got != "You said: one two" {
			t.Errorf("transcript %q", got)
		}
		pcm := audioOf(t, events, audio+".delta")
		if len(pcm) != 250*48 {
			t.Errorf("%d bytes of audio, want 250 ms", len(pcm))
		}
		if strings.Count(string(pcm), "\x00") > len(pcm)/10 {
			t.Error("the audio is silence")
		}
		done := events[len(events)-1]
		if done.str("response.status") != "completed" || done.get("response.status_details") != nil || done.str("response.output.0.status") != "completed" {
			t.Errorf("got %s", done.raw)
		}
		if done.str("response.output.0.content.0.transcript") != "You said: one two" {
			t.Errorf("got %s", done.raw)
		}
		// Two words in; four words and 250 ms at 50 ms a token out.
		if done.num("response.usage.input_tokens") != 2 || done.num("response.usage.output_token_details.audio_tokens") != 5 ||
			done.num("response.usage.output_token_details.text_tokens") != 4 || done.num("response.usage.total_tokens") != 11 {
			t.Errorf("usage in %s", done.raw)
		}
	}
	f(sim.Config{AudioMS: 250, ChunkMS: 100}, "response.output_audio", "response.output_audio_transcript", `
conversation.item.added
conversation.item.done
response.created
response.output_item.added
conversation.item.added
response.content_part.added
response.output_audio_transcript.delta
response.output_audio.delta
response.output_audio_transcript.delta
response.output_audio.delta
response.output_audio_transcript.delta
response.output_audio.delta
response.output_audio_transcript.delta
response.output_audio.done
response.output_audio_transcript.done
response.content_part.done
conversation.item.done
response.output_item.done
response.done`)
	f(sim.Config{AudioMS: 250, ChunkMS: 250, BetaNames: true}, "response.audio", "response.audio_transcript", `
conversation.item.created
response.created
response.output_item.added
conversation.item.created
response.content_part.added
response.audio_transcript.delta
response.audio.delta
response.audio_transcript.delta
response.audio.done
response.audio_transcript.done
response.content_part.done
response.output_item.done
response.done`)
}

func TestWrittenResponse(t *testing.T) {
	f := func(cfg sim.Config, update, create, name string) {
		t.Helper()
		p := open(t, start(t, cfg))
		if update != "" {
			p.send(update)
			p.expect("session.updated")
		}
		p.send(say("hi \"there\" ü"))
		p.send(create)
		events := p.until("response.done")
		if got := textOf(events, name+".delta"); got != "You said: hi \"there\" ü" {
			t.Errorf("text %q", got)
		}
		if strings.Contains(types(events), "audio") {
			t.Errorf("audio in %s", types(events))
		}
	}
	f(sim.Config{}, "", `{"type":"response.create","response":{"output_modalities":["text"]}}`, "response.output_text")
	f(sim.Config{}, `{"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}`, respond, "response.output_text")
	f(sim.Config{BetaNames: true}, `{"type":"session.update","session":{"modalities":["text"]}}`, respond, "response.text")
}

const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"},
	"unit":{"type":"string","enum":["celsius"]},"days":{"type":"integer"},"deep":{"type":["boolean","null"]}}}},{"type":"mcp","server_label":"x"}]`

func TestFunctionCall(t *testing.T) {
	p := open(t, start(t, sim.Config{AudioMS: 100}))
	p.send(`{"type":"session.update","session":{"type":"realtime",` + tools + `}}`)
	p.expect("session.updated")
	p.send(say("hello"))
	p.send(respond)
	if got := types(p.until("response.done")); strings.Contains(got, "function_call") {
		t.Fatalf("a call without its name: %s", got)
	}
	p.send(say("please use get_weather now"))
	p.send(respond)
	events := p.until("response.done")
	if got, want := types(events), strings.TrimSpace(`
conversation.item.added
conversation.item.done
response.created
response.output_item.added
conversation.item.added
response.function_call_arguments.delta
response.function_call_arguments.done
conversation.item.done
response.output_item.done
response.done`); got != want {
		t.Errorf("events:\n%s\nwant:\n%s", got, want)
	}
	args := textOf(events, "response.function_call_arguments.delta")
	if want := `{"city":"sim","unit":"celsius","days":1,"deep":true}`; args != want || !json.Valid([]byte(args)) {
		t.Errorf("arguments %s, want %s", args, want)
	}
	out := events[len(events)-1]
	if out.str("response.output.0.name") != "get_weather" || out.str("response.output.0.arguments") != args || out.str("response.output.0.call_id") == "" {
		t.Errorf("got %s", out.raw)
	}
	// The output is answered in words, or a client's loop would never end.
	p.send(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"` + out.str("response.output.0.call_id") + `","output":"sunny"}}`)
	p.send(respond)
	if got := textOf(p.until("response.done"), "response.output_audio_transcript.delta"); got != "The function answered: sunny" {
		t.Errorf("said %q", got)
	}
}

func TestToolChoice(t *testing.T) {
	f := func(choice, text string, called bool) {
		t.Helper()
		p := open(t, start(t, sim.Config{AudioMS: 100}))
		p.send(say(text))
		p.send(`{"type":"response.create","response":{"tool_choice":` + choice + `,` + tools + `}}`)
		if got := strings.Contains(types(p.until("response.done")), "function_call"); got != called {
			t.Errorf("tool_choice %s, text %q: called %v, want %v", choice, text, got, called)
		}
	}
	f(`"none"`, "get_weather", false)
	f(`"auto"`, "get_weather", true)
	f(`"auto"`, "hello", false)
	f(`"required"`, "hello", true)
	f(`{"type":"function","name":"get_weather"}`, "hello", true)
	f(`{"type":"function","name":"other"}`, "get_weather", false)
}

func TestCancel(t *testing.T) {
	p := open(t, start(t, sim.Config{AudioMS: 60_000, RealtimeFactor: 1}))
	p.send(`{"type":"response.cancel","event_id":"mine"}`)
	if e := p.expect("error"); e.str("error.code") != "response_cancel_not_active" || e.str("error.event_id") != "mine" || e.str("error.type") != "invalid_request_error" {
		t.Errorf("got %s", e.raw)
	}
	p.send(respond)
	item := p.until("response.output_audio.delta")[1].str("item.id")
	p.send(respond)
	p.send(`{"type":"response.cancel"}`)
	var overlap bool
	for {
		e := p.next()
		if e.Type == "error" {
			overlap = e.str("error.code") == "conversation_already_has_active_response"
		}
		if e.Type == "response.done" {
			if e.str("response.status") != "cancelled" || e.str("response.status_details.type") != "cancelled" || e.str("response.status_details.reason") != "client_cancelled" {
				t.Errorf("got %s", e.raw)
			}
			if e.str("response.output.0.status") != "incomplete" || e.num("response.usage.total_tokens") == 0 {
				t.Errorf("got %s", e.raw)
			}
			break
		}
	}
	if !overlap {
		t.Error("a second response was not refused")
	}
	// The interrupted item can be cut to what was heard, and no further.
	p.send(`{"type":"conversation.item.truncate","item_id":"` + item + `","content_index":0,"audio_end_ms":50}`)
	if e := p.expect("conversation.item.truncated"); e.str("item_id") != item || e.num("audio_end_ms") != 50 {
		t.Errorf("got %s", e.raw)
	}
	p.send(`{"type":"conversation.item.truncate","item_id":"` + item + `","content_index":0,"audio_end_ms":51}`)
	if e := p.expect("error"); e.str("error.param") != "audio_end_ms" {
		t.Errorf("got %s", e.raw)
	}
	p.send(respond)
	p.expect("response.created")
}

func TestCancelDuringResponseDelay(t *testing.T) {
	s := start(t, sim.Config{ResponseDelay: time.Hour})
	p := open(t, s)
	p.send(respond)
	id := p.expect("response.created").str("response.id")
	p.send(`{"type":"response.cancel","response_id":"` + id + `"}`)
	if e := p.expect("response.done"); e.str("response.status") != "cancelled" || len(e.get("response.output").([]any)) != 0 {
		t.Errorf("got %s", e.raw)
	}
	if st := s.Stats(); st.ResponsesCancelled != 1 || st.ResponsesCompleted != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestOutOfBandResponsesOverlap(t *testing.T) {
	s := start(t, sim.Config{ResponseDelay: 20 * time.Millisecond, AudioMS: 100})
	p := open(t, s)
	p.send(respond)
	p.send(`{"type":"response.create","response":{"conversation":"none","metadata":{"k":"v"},"output_modalities":["text"],
		"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"aside"}]}]}}`)
	var done, aside int
	for done < 2 {
		e := p.next()
		if e.Type != "response.done" {
			continue
		}
		done++
		if e.str("response.metadata.k") == "v" {
			aside++
			if e.str("response.output.0.content.0.text") != "You said: aside" || e.get("response.conversation_id") != nil {
				t.Errorf("got %s", e.raw)
			}
		}
	}
	if aside != 1 {
		t.Errorf("%d responses with the metadata, want 1", aside)
	}
}

func TestSameConversationSameEvents(t *testing.T) {
	run := func() string {
		s := start(t, sim.Config{AudioMS: 300})
		p := open(t, s)
		p.send(audioAppend(200, 7))
		p.send(audioAppend(600, 0))
		var said []string
		for _, e := range p.until("response.done") {
			said = append(said, e.Type+" "+e.str("delta")+e.str("transcript"))
			if e.Type == "response.done" {
				usage, _ := json.Marshal(e.get("response.usage"))
				said = append(said, string(usage))
			}
		}
		return strings.Join(said, "\n")
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n\n%s", a, b)
	}
}
