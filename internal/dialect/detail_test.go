package dialect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const partMax = 4 << 10 // what the relay keeps of either end of a message

// detailOf cuts a message as the relay does and reads it.
func detailOf(t *testing.T, msg string) Detail {
	t.Helper()
	if !json.Valid([]byte(msg)) {
		t.Fatalf("bad test message %s", msg)
	}
	d := dialectNamed(t, "openai")
	ev := d.ServerEvent([]byte(msg), nil)
	if !d.WantsDetail(ev) {
		t.Fatalf("%v wants no detail", ev)
	}
	if len(msg) <= partMax {
		return d.Detail(ev, []byte(msg), nil)
	}
	return d.Detail(ev, []byte(msg[:partMax]), []byte(msg[len(msg)-partMax:]))
}

const usageJSON = `{"total_tokens":253,"input_tokens":132,"output_tokens":121,` +
	`"input_token_details":{"text_tokens":119,"audio_tokens":13,"image_tokens":2,"cached_tokens":64,"cached_tokens_details":{"text_tokens":60,"audio_tokens":4}},` +
	`"output_token_details":{"text_tokens":30,"audio_tokens":91}}`

var usage = Usage{Input: 132, Output: 121, Total: 253, InputText: 119, InputAudio: 13, InputImage: 2, InputCached: 64, OutputText: 30, OutputAudio: 91}

// responseDone renders a response.done whose output and metadata are as long as asked for, full of decoys.
func responseDone(output, metadata int) string {
	const decoy = `\"usage\":{\"input_tokens\":1},\"id\":\"x\"}}`
	item := `{"id":"item_1","type":"message","status":"incomplete","usage":{"input_tokens":9},"content":[{"type":"output_text","text":"` + decoy + `"}]}`
	return `{"type":"response.done","event_id":"event_1","response":{"object":"realtime.response","id":"resp_1","status":"cancelled",` +
		`"status_details":{"type":"cancelled","reason":"turn_detected"},"output":[` + item + strings.Repeat(","+item, output/len(item)) +
		`],"conversation_id":"conv_1","max_output_tokens":"inf","audio":{"output":{"voice":"marin"}},"usage":` + usageJSON +
		`,"metadata":{"usage":"` + strings.Repeat(decoy, metadata/len(decoy)) + `"}}}`
}

func TestDetailOfResponses(t *testing.T) {
	f := func(name, msg string, want Detail) {
		t.Helper()
		if got := detailOf(t, msg); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	done := Detail{ResponseID: "resp_1", Status: "cancelled", StatusReason: "turn_detected", Usage: usage}
	f("short", responseDone(0, 0), done)
	f("long output", responseDone(20_000, 0), done)
	f("long output and metadata", responseDone(20_000, 2000), done)
	f("just over the first part", responseDone(3500, 500), done)
	done.Usage = Usage{}
	f("usage cut away on both sides", responseDone(20_000, 6000), done)
	f("created", `{"type":"response.created","event_id":"e","response":{"id":"resp_2","status":"in_progress","status_details":null,"usage":null}}`,
		Detail{ResponseID: "resp_2", Status: "in_progress"})
	f("failed", `{"type":"response.done","response":{"id":"r","status":"failed","status_details":{"type":"failed","error":{"type":"server_error","code":null,"message":"boom"}}}}`,
		Detail{ResponseID: "r", Status: "failed", ErrorCode: "server_error", ErrorMessage: "boom"})
	f("plural names", `{"event_id":"e","type":"response.done","response":{"usage":{"input_tokens_details":{"text_tokens":1},"output_tokens_details":{"audio_tokens":2}}}}`,
		Detail{Usage: Usage{InputText: 1, OutputAudio: 2}})
	f("odd numbers", `{"type":"response.done","response":{"usage":{"input_tokens":12.0,"output_tokens":-3,"total_tokens":"7","input_token_details":[]}}}`,
		Detail{Usage: Usage{Input: 12}})
	f("not an object", `{"type":"response.done","response":[{"id":"r"}]}`, Detail{})
}

func TestDetailOfSessions(t *testing.T) {
	f := func(name, msg string, want Detail) {
		t.Helper()
		if got := detailOf(t, msg); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	instructions := strings.Repeat(`say \"}\" and \"id\":\"x\", `, 1000)
	want := Detail{SessionID: "sess_1", ExpiresAt: time.Unix(1_790_000_000, 0)}
	f("GA", `{"type":"session.created","event_id":"e","session":{"type":"realtime","object":"realtime.session","id":"sess_1","tools":[{"id":"no"}],"expires_at":1790000000}}`, want)
	f("ids behind long instructions", `{"event_id":"e","type":"session.created","session":{"instructions":"`+instructions+`","expires_at":1790000000,"id":"sess_1"}}`, want)
	f("ids before long instructions", `{"type":"session.created","session":{"id":"sess_1","expires_at":1790000000,"instructions":"`+instructions+`"}}`, want)
	f("type last", `{"session":{"id":"sess_1","expires_at":1790000000,"instructions":"`+instructions+`"},"type":"session.created"}`, want)
	f("vLLM", `{"type":"session.created","id":"sess_1","created":1790000000}`, Detail{SessionID: "sess_1"})
	f("without expiry", `{"type":"session.updated","session":{"id":"sess_1","expires_at":null}}`, Detail{SessionID: "sess_1"})
	f("zero expiry", `{"type":"session.updated","session":{"id":"sess_1","expires_at":0}}`, Detail{SessionID: "sess_1"})
	f("absurd expiry", `{"type":"session.updated","session":{"id":"sess_1","expires_at":1e300}}`, Detail{SessionID: "sess_1"})
	f("fractional expiry", `{"type":"session.updated","session":{"id":"sess_1","expires_at":1790000000.75}}`, want)
	f("escaped keys", `{"type":"session.created","sess\u0069on":{"\u0069d":"sess\u005f1","expires\u005fat":1790000000}}`, want)
}

func TestDetailOfErrors(t *testing.T) {
	f := func(msg string, want Detail) {
		t.Helper()
		if got := detailOf(t, msg); got != want {
			t.Errorf("%.200s:\n got %+v\nwant %+v", msg, got, want)
		}
	}
	f(`{"type":"error","event_id":"e","error":{"type":"invalid_request_error","code":"session_expired","message":"too \"old\"\n","param":null,"event_id":null}}`,
		Detail{ErrorCode: "session_expired", ErrorMessage: "too \"old\"\n"})
	f(`{"type":"error","error":{"code":"a","type":"b","message":"m"}}`, Detail{ErrorCode: "a", ErrorMessage: "m"})
	f(`{"type":"error","error":{"type":"b","code":null}}`, Detail{ErrorCode: "b"})
	f(`{"type":"error","error":"model is loading","code":"not_ready"}`, Detail{ErrorCode: "not_ready", ErrorMessage: "model is loading"}) // vLLM
	f(`{"type":"error","error":"boom"}`, Detail{ErrorMessage: "boom"})
	f(`{"type":"error"}`, Detail{})
	long := "x" + strings.Repeat("é", 1500)
	f(`{"type":"error","error":{"message":"`+long+`"}}`, Detail{ErrorMessage: long[:maxMessage-1]})
	f(`{"error":{"message":"`+long+long+`","code":"c","type":"t"},"type":"error"}`, Detail{ErrorCode: "c"})
}

// Both halves may be cut anywhere: what is read is right or missing, never wrong.
func TestDetailCutAnywhere(t *testing.T) {
	d := dialectNamed(t, "openai")
	msg := []byte(responseDone(300, 200))
	right := func(what, got, want string) {
		t.Helper()
		if got != "" && got != want {
			t.Fatalf("%s = %q, want %q or nothing", what, got, want)
		}
	}
	check := func(first, last []byte) {
		t.Helper()
		got := d.Detail(EventResponseDone, first, last)
		right("id", got.ResponseID, "resp_1")
		right("status", got.Status, "cancelled")
		right("reason", got.StatusReason, "turn_detected")
		if got.Usage != usage && got.Usage != (Usage{}) {
			t.Fatalf("usage = %+v, from %q … %q", got.Usage, first, last)
		}
		if got.SessionID+got.ErrorCode+got.ErrorMessage != "" || !got.ExpiresAt.IsZero() {
			t.Fatalf("detail = %+v", got)
		}
	}
	for cut := range len(msg) + 1 {
		check(msg[:cut], msg[cut:])
		check(msg[:cut], []byte{})
		check(nil, msg[cut:])
	}
	whole := d.Detail(EventResponseDone, nil, msg)
	if whole.Usage != usage || whole.ResponseID != "resp_1" || whole.StatusReason != "turn_detected" {
		t.Errorf("read backward only: %+v", whole)
	}
}

func TestDetailIsLinearInDepth(t *testing.T) {
	d := dialectNamed(t, "openai")
	first := []byte(`{"type":"response.done","response":` + strings.Repeat(`[{"response":`, 1<<18))
	last := []byte(strings.Repeat(`}]`, 1<<18) + `}`)
	start := time.Now()
	if got := d.Detail(EventResponseDone, first, last); got != (Detail{}) {
		t.Errorf("detail = %+v", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzDetail(f *testing.F) {
	f.Add([]byte(responseDone(100, 100)), uint16(50), uint16(300), uint8(EventResponseDone))
	f.Add([]byte(`{"type":"session.created","session":{"id":"s","expires_at":17e8}}`), uint16(9), uint16(12), uint8(EventSessionCreated))
	f.Add([]byte(`{"type":"error","error":{"code":"\ud83d","message":"\u00`), uint16(90), uint16(0), uint8(EventError))
	d := dialectNamed(f, "openai")
	f.Fuzz(func(t *testing.T, msg []byte, a, b uint16, ev uint8) {
		first, last := msg[:min(int(a), len(msg))], msg[min(int(b), len(msg)):]
		got := d.Detail(Event(ev), first, last)
		for _, s := range []string{got.ResponseID, got.SessionID, got.Status, got.StatusReason, got.ErrorCode, got.ErrorMessage} {
			if len(s) > maxMessage {
				t.Errorf("%d bytes of text are kept", len(s))
			}
		}
		u := got.Usage
		if min(u.Input, u.Output, u.Total, u.InputText, u.InputAudio, u.InputImage, u.InputCached, u.OutputText, u.OutputAudio) < 0 {
			t.Errorf("negative usage %+v", u)
		}
	})
}

func BenchmarkDetail(b *testing.B) {
	d := dialectNamed(b, "openai")
	msg := []byte(responseDone(20_000, 500))
	b.ReportAllocs()
	for b.Loop() {
		d.Detail(EventResponseDone, msg[:partMax], msg[len(msg)-partMax:])
	}
}
