package sim_test

import (
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/sim"
)

func TestErrorEvents(t *testing.T) {
	p := open(t, start(t, sim.Config{}))
	f := func(msg, code, param, eventID string) {
		t.Helper()
		p.send(msg)
		e := p.expect("error")
		if e.str("error.type") != "invalid_request_error" || e.str("error.code") != code || e.str("error.param") != param ||
			e.str("error.event_id") != eventID || e.str("error.message") == "" {
			t.Errorf("%s: got %s", msg, e.raw)
		}
		for _, key := range []string{"param", "event_id"} {
			if _, ok := e.get("error").(map[string]any)[key]; !ok {
				t.Errorf("%s: no %s in %s", msg, key, e.raw)
			}
		}
	}
	f(`{`, "invalid_json", "", "")
	f(`[]`, "invalid_json", "", "")
	f(`{"type":"input_audio_buffer.append","audio":"AAAA"} x`, "invalid_json", "", "")
	f(`{"event_id":"e1"}`, "missing_required_parameter", "type", "e1")
	f(`{"type":"response.explode","event_id":"e2"}`, "invalid_value", "type", "e2")
	f(`{"event_id":"e3","type":7}`, "invalid_type", "type", "e3")
	f(`{"type":"input_audio_buffer.append","event_id":"e4"}`, "missing_required_parameter", "audio", "e4")
	f(`{"type":"input_audio_buffer.append","event_id":"e5","audio":"\u0021"}`, "invalid_value", "audio", "e5")
	f(`{"type":"input_audio_buffer.append","event_id":"e5","audio":"!"}`, "invalid_value", "audio", "e5")
	f(`{"type":"session.update","event_id":"e6"}`, "missing_required_parameter", "session", "e6")
	f(`{"type":"session.update","event_id":"e7","session":{"instructions":7}}`, "invalid_type", "session.instructions", "e7")
	f(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"psychic"}}}}}`, "invalid_value", "session", "")
	f(`{"type":"session.update","session":{"tools":[{"type":"function"}]}}`, "invalid_value", "session", "")
	f(`{"type":"conversation.item.create","event_id":"e8"}`, "missing_required_parameter", "item", "e8")
	f(`{"type":"conversation.item.create","item":{"type":"poem"}}`, "invalid_value", "item.type", "")
	f(`{"type":"conversation.item.create","previous_item_id":"item_no","item":{"type":"message","role":"user"}}`, "invalid_value", "previous_item_id", "")
	f(`{"type":"conversation.item.delete","event_id":"e9","item_id":"item_no"}`, "item_delete_invalid_item_id", "item_id", "e9")
	f(`{"type":"conversation.item.retrieve","item_id":"item_no"}`, "item_retrieve_invalid_item_id", "item_id", "")
	f(`{"type":"conversation.item.truncate","item_id":"item_no"}`, "item_truncate_invalid_item_id", "item_id", "")
	f(`{"type":"response.create","response":{"tools":7}}`, "invalid_type", "response.tools", "")

	p.frame(ws.NewBinaryFrame([]byte(respond)))
	if e := p.expect("error"); !strings.Contains(e.str("error.message"), "binary") {
		t.Errorf("got %s", e.raw)
	}
	// The session survives all of it.
	p.send(`{"type":"input_audio_buffer.clear"}`)
	p.expect("input_audio_buffer.cleared")
}

func TestSessionUpdateKeepsWhatItDoesNotName(t *testing.T) {
	p := open(t, start(t, sim.Config{}))
	p.send(`{"type":"session.update","session":{"id":"mine","model":"other","instructions":"be brief","audio":{"output":{"voice":"cedar"}}}}`)
	first := p.expect("session.updated")
	p.send(`{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"type":"server_vad","silence_duration_ms":900}}}}}`)
	e := p.expect("session.updated")
	if e.str("session.instructions") != "be brief" || e.str("session.audio.output.voice") != "cedar" || e.num("session.audio.input.turn_detection.silence_duration_ms") != 900 ||
		e.num("session.audio.input.turn_detection.prefix_padding_ms") != 300 {
		t.Errorf("got %s", e.raw)
	}
	if e.str("session.model") != "gpt-realtime" || e.str("session.id") == "mine" || e.str("session.id") != first.str("session.id") {
		t.Errorf("a client changed what is not its own: %s", e.raw)
	}
}

func TestItems(t *testing.T) {
	p := open(t, start(t, sim.Config{}))
	p.send(`{"type":"conversation.item.create","item":{"id":"one","type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}`)
	if e := p.expect("conversation.item.added"); e.get("previous_item_id") != nil || e.str("item.id") != "one" || e.str("item.object") != "realtime.item" ||
		e.str("item.status") != "completed" || e.str("item.content.0.text") != "hi" {
		t.Errorf("got %s", e.raw)
	}
	p.expect("conversation.item.done")
	p.send(say("two"))
	if e := p.expect("conversation.item.added"); e.str("previous_item_id") != "one" || !strings.HasPrefix(e.str("item.id"), "item_") {
		t.Errorf("got %s", e.raw)
	}
	p.expect("conversation.item.done")
	p.send(`{"type":"conversation.item.retrieve","item_id":"one"}`)
	if e := p.expect("conversation.item.retrieved"); e.str("item.content.0.text") != "hi" {
		t.Errorf("got %s", e.raw)
	}
	p.send(`{"type":"conversation.item.truncate","item_id":"one"}`)
	p.expect("error")
	p.send(`{"type":"conversation.item.delete","item_id":"one"}`)
	p.expect("conversation.item.deleted")
	p.send(`{"type":"conversation.item.retrieve","item_id":"one"}`)
	p.expect("error")
}
