package dialect

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

func TestReady(t *testing.T) {
	type want struct {
		done bool
		info SessionInfo
		err  string // code of the error
	}
	wait := want{}
	f := func(name string, frames []string, wants ...want) {
		t.Helper()
		r := dialectNamed(t, "compatible").NewReady()
		for i, frame := range frames {
			done, info, err := r.Frame(ws.OpText, []byte(frame))
			var upstream *UpstreamError
			if errors.As(err, &upstream) != (wants[i].err != "") || upstream != nil && upstream.Code != wants[i].err {
				t.Errorf("%s, frame %d: error %v, want code %q", name, i, err, wants[i].err)
			}
			if done != wants[i].done || info != wants[i].info {
				t.Errorf("%s, frame %d: %v %+v, want %+v", name, i, done, info, wants[i])
			}
		}
	}
	const created = `{"type":"session.created","event_id":"e","session":{"id":"sess_1","expires_at":1790000000}}`
	is := SessionInfo{ID: "sess_1", ExpiresAt: time.Unix(1_790_000_000, 0)}
	f("OpenAI", []string{created}, want{done: true, info: is})
	f("conversation first", []string{`{"type":"conversation.created","conversation":{"id":"c"}}`, created}, wait, want{done: true, info: is})
	f("vLLM", []string{`{"type":"session.created","id":"sess_1","created":1}`}, want{done: true, info: SessionInfo{ID: "sess_1"}})
	f("Qwen", []string{`{"event_id":"e","type":"session.created","session":{"object":"realtime.session","id":"sess_1"}}`}, want{done: true, info: SessionInfo{ID: "sess_1"}})
	f("no id", []string{`{"type":"session.created","session":{}}`}, want{done: true})
	f("LocalAI", []string{`{"error":{"type":"server_error","code":"model_load_error","message":"no"},"event_id":"","type":"error"}`}, want{err: "model_load_error"})
	f("vLLM error", []string{`{"type":"error","error":"bad"}`}, want{err: "error"})
	f("a benign code is no comfort yet", []string{`{"type":"error","error":{"code":"response_cancel_not_active"}}`}, want{err: "response_cancel_not_active"})
	f("session ended", []string{`{"type":"session.finished"}`}, want{err: "session_ended"})
	f("something else", []string{`{"type":"x"}`, `not json`, ``, created}, wait, wait, wait, want{done: true, info: is})
}

func TestCaseA1ParkedVerdict(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(payload, wantCode string) {
		t.Helper()
		err := ParkedVerdict(d, []byte(payload))
		var upstream *UpstreamError
		if errors.As(err, &upstream) != (wantCode != "") || upstream != nil && upstream.Code != wantCode {
			t.Errorf("%s: %v, want code %q", payload, err, wantCode)
		}
	}
	f(`{"type":"conversation.created"}`, "")
	f(`{"type":"session.updated","session":{"error":{"code":"x"}}}`, "")
	f(`{"type":"rate_limits.updated"}`, "")
	f(`binary`, "")
	for code := range benign {
		f(`{"type":"error","error":{"type":"invalid_request_error","code":"`+code+`","message":"m"}}`, "")
	}
	for _, code := range []string{"insufficient_quota", "invalid_api_key", "account_deactivated", "billing_hard_limit_reached", "model_not_found", "session_expired", "never_heard_of"} {
		f(`{"type":"error","error":{"type":"t","code":"`+code+`"}}`, code)
	}
	f(`{"type":"error","error":{"type":"server_error","code":null}}`, "server_error")
	f(`{"type":"session.finished"}`, "session_ended")
}

func TestLossEventIsAnErrorEvent(t *testing.T) {
	d := dialectNamed(t, "openai")
	payload := d.LossEvent()
	var event struct {
		Type    string
		EventID string `json:"event_id"`
		Error   struct {
			Type, Code, Message *string
			Param               json.RawMessage
			EventID             json.RawMessage `json:"event_id"`
		}
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		t.Fatal(err)
	}
	e := event.Error
	if event.Type != "error" || event.EventID == "" || e.Type == nil || e.Code == nil || e.Message == nil || string(e.Param) != "null" || string(e.EventID) != "null" {
		t.Errorf("loss event = %s", payload)
	}
	if got := d.ServerEvent(payload, nil); got != EventError {
		t.Errorf("it reads as %v", got)
	}
	payload[0] = 'x'
	if d.LossEvent()[0] != '{' {
		t.Error("a caller can change the event of others")
	}
}
