package dialect

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/gobwas/ws"
)

func TestAPresetIsOneSessionUpdate(t *testing.T) {
	for _, name := range Names() {
		d := dialectNamed(t, name)
		message, _ := d.Preset(&Preset{Name: "support", Session: []byte(`{"type":"realtime","instructions":"Ω \" <b>"}`)})
		const want = `{"type":"session.update","event_id":"event_rtd_preset","session":{"type":"realtime","instructions":"Ω \" <b>"}}`
		if string(message) != want || !json.Valid(message) {
			t.Errorf("%s: %s, want %s", name, message, want)
		}
		if ev := d.ClientEvent(message, nil); ev != EventSessionUpdate {
			t.Errorf("%s: it reads as %v", name, ev)
		}
	}
}

func TestWhatAnswersAPreset(t *testing.T) {
	f := func(payload string, wantDone bool, wantCode string) {
		t.Helper()
		_, answer := dialectNamed(t, "openai").Preset(&Preset{Name: "p", Session: []byte(`{}`)})
		done, _, err := answer.Frame(ws.OpText, []byte(payload))
		var upstream *UpstreamError
		if errors.As(err, &upstream) != (wantCode != "") || upstream != nil && upstream.Code != wantCode || done != wantDone {
			t.Errorf("%s: %v, %v; want %v, code %q", payload, done, err, wantDone, wantCode)
		}
	}
	f(`{"type":"session.updated","event_id":"e","session":{"id":"s"}}`, true, "")
	f(`{"event_id":"e","type":"session.updated"}`, true, "")
	f(`{"type":"conversation.created"}`, false, "")
	f(`{"type":"session.created","session":{}}`, false, "")
	f(`not json`, false, "")
	f(`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","event_id":"event_rtd_preset"}}`, false, "invalid_value")
	f(`{"type":"error","error":{"type":"invalid_request_error","code":null,"event_id":null}}`, false, "invalid_request_error")
	f(`{"type":"error","error":"no"}`, false, "error")
	f(`{"type":"error","error":{"code":"input_audio_buffer_commit_empty","event_id":"event_other"}}`, false, "")
	f(`{"type":"error","error":{"code":"insufficient_quota","event_id":"event_other"}}`, false, "insufficient_quota")
	f(`{"type":"session.finished"}`, false, "session_ended")
}

func TestAPresetIsPartOfATarget(t *testing.T) {
	plain := Target{Key: "k", Name: "up/m"}
	keys := map[string]bool{}
	f := func(p *Preset, wantName string) {
		t.Helper()
		got := plain.With(p)
		if got.Name != wantName || got.Preset != p || keys[got.Key] {
			t.Errorf("%+v", got)
		}
		keys[got.Key] = true
		if again := plain.With(p); again.Key != got.Key {
			t.Error("the same preset gives two keys")
		}
	}
	f(nil, "up/m")
	f(&Preset{"a", []byte(`{}`)}, "up/m+a")
	f(&Preset{"a", []byte(`{"x":1}`)}, "up/m+a")
	f(&Preset{"b", []byte(`{}`)}, "up/m+b")
	f(&Preset{"a{", []byte(`}`)}, "up/m+a{")
	if plain.Preset != nil || plain.Key != "k" {
		t.Error("With changes what it is called on")
	}
}

func TestAnErrorSaysWhatItAnswers(t *testing.T) {
	d := dialectNamed(t, "openai").Detail(EventError, []byte(`{"type":"error","event_id":"own","error":{"code":"c","event_id":"asked"}}`), nil)
	if d != (Detail{ErrorCode: "c", Answers: "asked"}) {
		t.Errorf("%+v", d)
	}
}
