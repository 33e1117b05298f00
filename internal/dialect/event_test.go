package dialect

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What the relay shows of a message.
const (
	headMax = 192
	tailMax = 160
)

func dialectNamed(t testing.TB, name string) Dialect {
	t.Helper()
	d, ok := Lookup(name)
	if !ok {
		t.Fatalf("no dialect %q", name)
	}
	return d
}

// peek cuts a message as the relay does.
func peek(msg []byte) (head, tail []byte) {
	return msg[:min(len(msg), headMax)], msg[max(0, len(msg)-tailMax):]
}

var base64Audio = strings.Repeat("AAD/fw==", 800)

func TestServerEventNames(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(typ string, want Event) {
		t.Helper()
		for _, format := range []string{
			`{"type":"TYPE","event_id":"event_1","delta":"PAD"}`, // OpenAI
			`{"event_id":"event_1","type":"TYPE","delta":"PAD"}`, // Qwen
			`{"event_id":"event_1","delta":"PAD","type":"TYPE"}`, // LocalAI
			`{"delta":"PAD","type":"TYPE","event_id":"event_1"}`,
			`{"delta":"PAD","type":"TYPE","item":{"type":"error","list":[{"type":"error"}]},"n":-1.5e3,"z":null}`,
			"{ \"event_id\" : \"event_1\" ,\n\t\"type\" : \"TYPE\" , \"delta\" : \"PAD\" }\r\n",
			`{"response":{"type":"error","x":["}",{"type":"error"}]},"type":"TYPE"}`,
			`{"typ\u0065":"TYPE"}`,
			`{"a\"":"\\\"","type":"TYPE","b":"\\"}`,
		} {
			for _, pad := range []string{"", `\"type\":\"error\"`, base64Audio} {
				msg := []byte(strings.NewReplacer("TYPE", typ, "PAD", pad).Replace(format))
				if !json.Valid(msg) {
					t.Fatalf("bad test message %s", msg)
				}
				if got := d.ServerEvent(peek(msg)); got != want {
					t.Errorf("%.200s… is %v, want %v", msg, got, want)
				}
			}
		}
	}
	f("session.created", EventSessionCreated)
	f("session.updated", EventSessionUpdated)
	f("session.finished", EventSessionEnd)
	f("input_audio_buffer.speech_started", EventSpeechStarted)
	f("input_audio_buffer.speech_stopped", EventSpeechStopped)
	f("input_audio_buffer.committed", EventCommitted)
	f("response.created", EventResponseCreated)
	f("response.output_text.delta", EventTextDelta)
	f("response.output_audio_transcript.delta", EventTextDelta)
	f("response.output_audio.delta", EventAudioDelta)
	f("response.text.delta", EventTextDelta)
	f("response.audio_transcript.delta", EventTextDelta)
	f("response.audio.delta", EventAudioDelta)
	f("response.done", EventResponseDone)
	f("error", EventError)
	f("rate_limits.updated", EventOther)
	f("response.output_audio.done", EventOther)
	f("conversation.created", EventOther)
	f("", EventOther)
	f(strings.Repeat("x", 70), EventOther)
	f(`response\u002edone`, EventResponseDone)
	f(`response.don\u0065`, EventResponseDone)
	f(`response.done\u0000`, EventOther)
	f(`response.done\ud83d\ude00`, EventOther)
	f(`\/`, EventOther)
}

func TestClientEventNames(t *testing.T) {
	d := dialectNamed(t, "compatible")
	f := func(msg string, want Event) {
		t.Helper()
		if got := d.ClientEvent(peek([]byte(msg))); got != want {
			t.Errorf("%.200s is %v, want %v", msg, got, want)
		}
	}
	f(`{"type":"session.update","session":{"type":"realtime"}}`, EventSessionUpdate)
	f(`{"type":"input_audio_buffer.append","audio":"`+base64Audio+`"}`, EventAppend)
	f(`{"type": "input_audio_buffer.append", "audio": "`+base64Audio+`"}`, EventAppend) // openai-python
	f(`{"audio":"`+base64Audio+`","type":"input_audio_buffer.append"}`, EventAppend)    // LiveKit, openai-agents-python
	f(`{"audio":"`+base64Audio+`","event_id":"e","type":"input_audio_buffer.append"}`, EventAppend)
	f(`{"event_id":"e","audio":"`+base64Audio+`","type":"input_audio_buffer.append"}`, EventAppend)
	f(`{"event_id":"e","type":"input_audio_buffer.commit"}`, EventCommit)
	f(`{"type":"response.create"}`, EventResponseCreate)
	f(`{"type":"response.create","response":{"conversation":"none","type":"response.cancel"}}`, EventResponseCreate)
	f(`{"type":"response.cancel","response_id":"r"}`, EventCancel)
	f(`{"type":"conversation.item.truncate","audio_end_ms":3}`, EventTruncate)
	f(`{"item":{"type":"message","content":[{"type":"response.cancel"}]},"type":"conversation.item.create"}`, EventOther)
	f(`{"item":{"type":"response.cancel"}}`, EventNone)
	f(`{}`, EventNone)
	f(``, EventNone)
}

func TestOpenings(t *testing.T) {
	d := dialectNamed(t, "openai")
	for message, want := range map[string]struct {
		ev      Event
		opening Opening
	}{
		`{"type":"input_audio_buffer.append","audio":"AAAA"}`:              {EventAppend, Opening{Prefix: `{"type":"input_audio_buffer.append"`}},
		`{"type": "input_audio_buffer.append", "audio": "AAAA"}`:           {EventAppend, Opening{Prefix: `{"type": "input_audio_buffer.append"`}},
		`{"audio": "AAAA", "type": "input_audio_buffer.append"}`:           {EventAppend, Opening{Prefix: `{"audio":`}},
		`{"event_id":"e","type":"input_audio_buffer.append","audio":""}`:   {EventAppend, Opening{`{"event_id":"`, `","type":"input_audio_buffer.append"`}},
		`{"event_id":"e\"","type":"input_audio_buffer.append","audio":""}`: {EventAppend, Opening{}},
		`{"type":"response.audio.delta","delta":"AAAA"}`:                   {EventAudioDelta, Opening{Prefix: `{"type":"response.audio.delta"`}},
		`{"type": "response.output_audio.delta", "delta": "AAAA"}`:         {EventAudioDelta, Opening{Prefix: `{"type": "response.output_audio.delta"`}},
		`{"type":"response.output_audio_transcript.delta","delta":"a"}`:    {EventTextDelta, Opening{Prefix: `{"type":"response.output_audio_transcript.delta"`}},
		`{"event_id": "e", "type": "response.text.delta", "delta": ""}`:    {EventTextDelta, Opening{`{"event_id": "`, `", "type": "response.text.delta"`}},
		`{"event_id":"e","delta":"","type":"response.text.delta"}`:         {EventTextDelta, Opening{}},
		`{"event_id":"e`: {EventTextDelta, Opening{}},
		`{"type":"response.done","response":{"type":"response.output_text.delta"}}`: {EventResponseDone, Opening{}},
	} {
		if got := d.Opening(want.ev, []byte(message)); got != want.opening {
			t.Errorf("%s opens with %q, want %q", message, got, want.opening)
		}
	}
}

// What begins with an opening is of its event, however it goes on.
func TestAnOpeningIsOfOneEvent(t *testing.T) {
	d := dialectNamed(t, "openai")
	for ev, list := range openings {
		for _, o := range list {
			start := o.Prefix
			if o.Infix != "" {
				start += "event_1" + o.Infix
			}
			for _, rest := range []string{`"` + base64Audio + `","type":"error"}`, `,"x":"` + base64Audio + `","type":"error"}`} {
				message := []byte(start + rest)
				if head, tail := peek(message); json.Valid(message) && d.ServerEvent(head, tail) != Event(ev) && d.ClientEvent(head, tail) != Event(ev) {
					t.Errorf("%s… is not of event %v", start, Event(ev))
				}
			}
		}
	}
}

func TestEventOfWhatIsNoMessage(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(msg string) {
		t.Helper()
		if got := d.ServerEvent(peek([]byte(msg))); got != EventNone {
			t.Errorf("%q is %v, want none", msg, got)
		}
	}
	f("")
	f("   ")
	f("null")
	f(`"type"`)
	f(`["type","error"]`)
	f(`{"type"`)
	f(`{"type":`)
	f(`{"type":"err`)
	f(`{"type":null}`)
	f(`{"type":{"type":"error"}}`)
	f(`{"type":["error"]}`)
	f(`{"a":{"type":"error"}}`)
	f(`{"a":[{"type":"error"}],"b":"\"type\":\"error\"}"}`)
	f(`{"a":"` + base64Audio + `","b":{"type":"error"}}`)
	f(`{"a":"` + base64Audio + `\",\"type\":\"error\"}`) // cut before its end
	f("\x00\x01\x02 binary audio } \"type\":\"error\"}")
}

// A tail may begin anywhere, also inside a string or behind the backslash of an escape.
func TestTailCutAnywhere(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(msg string, want Event) {
		t.Helper()
		for cut := range len(msg) {
			got := d.ServerEvent([]byte(`{"x":"`), []byte(msg[cut:]))
			if got != want && got != EventNone {
				t.Errorf("from %q on: %v, want %v or none", msg[cut:], got, want)
			}
		}
		if got := d.ServerEvent([]byte(`{"x":"`), []byte(msg)); got != want {
			t.Errorf("%q is %v, want %v", msg, got, want)
		}
	}
	f(`{"x":"y","type":"response.done","z":[1,{"type":"error"}]}`, EventResponseDone)
	f(`{"x":"\",\"type\":\"error\"}","type":"response.done"}`, EventResponseDone)
	f(`{"x":"\\\\\",\\\"type\":\"error\"","n":1,"type":"response.done","t":true}`, EventResponseDone)
	f(`{"x":{"type":"error"},"y":["\"type\":\"error\"}"]}`, EventNone)
}

func TestResponseID(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(msg, want string) {
		t.Helper()
		if got := string(d.ResponseID(peek([]byte(msg)))); got != want {
			t.Errorf("%.200s is of %q, want %q", msg, got, want)
		}
	}
	f(`{"type":"response.output_audio.delta","event_id":"e","response_id":"resp_1","item_id":"i","delta":"`+base64Audio+`"}`, "resp_1")
	f(`{"delta":"`+base64Audio+`","response_id":"resp_2","type":"response.audio.delta"}`, "resp_2")
	f(`{"type":"x","item":{"response_id":"resp_3"}}`, "")
	f(`{"type":"x","response_id":null}`, "")
}

func TestPeekAllocatesNothing(t *testing.T) {
	d := dialectNamed(t, "openai")
	f := func(name, msg string) {
		t.Helper()
		head, tail := peek([]byte(msg))
		var sink Event
		if n := testing.AllocsPerRun(200, func() {
			sink += d.ServerEvent(head, tail) + d.ClientEvent(head, tail)
			d.ResponseID(head, tail)
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0 (%d)", name, n, sink)
		}
	}
	f("first key", `{"type":"response.output_audio.delta","delta":"`+base64Audio+`"}`)
	f("last key", `{"delta":"`+base64Audio+`","type":"response.audio.delta"}`)
	f("escapes", `{"typ\u0065":"response.\u0064one"}`)
	f("nothing", `{"delta":"`+base64Audio+`"}`)
}

func TestEventsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for e := range numEvents {
		if s := e.String(); s == "" || s == "unknown" || seen[s] {
			t.Errorf("event %d is named %q", e, s)
		}
		seen[e.String()] = true
	}
	if numEvents.String() != "unknown" {
		t.Error("a value beyond the last has a name")
	}
}

// oracle is what encoding/json makes of the root's type. ok is false for what the package promises nothing about.
func oracle(msg []byte) (typ *string, firstKey string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(msg))
	if tok, err := dec.Token(); !json.Valid(msg) || err != nil || tok != json.Delim('{') {
		return nil, "", false
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		key, isString := tok.(string)
		if err != nil || !isString || seen[key] {
			return nil, "", false
		}
		if len(seen) == 0 {
			firstKey = key
		}
		seen[key] = true
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, "", false
		}
		if s, isString := value.(string); isString && key == "type" {
			typ = &s
		}
	}
	return typ, firstKey, true
}

func FuzzServerEvent(f *testing.F) {
	for _, s := range []string{
		`{"type":"error"}`, `{"event_id":"e","type":"response.done"}`, `{"a":{"type":"error"},"type":"session.created"}`,
		`{"typ\u0065":"response\u002edone","x":[1,2,{"y":"\\"}]}`, `{"a":"\"","type":"error","b":"\\\\"}`, ` { "type" : 1 } `, `[]`,
		`{"delta":"` + base64Audio[:300] + `","type":"response.audio.delta"}`,
	} {
		f.Add([]byte(s))
	}
	d := dialectNamed(f, "openai")
	f.Fuzz(func(t *testing.T, msg []byte) {
		before := bytes.Clone(msg)
		whole := d.ServerEvent(msg, nil)
		head, tail := peek(msg)
		peeked := d.ServerEvent(head, tail)
		client := d.ClientEvent(head, tail)
		if !bytes.Equal(before, msg) {
			t.Fatal("the message was modified")
		}
		typ, firstKey, ok := oracle(msg)
		if !ok {
			return
		}
		want := EventNone
		if typ != nil {
			// A message that holds nothing but the type takes the shortest path there is.
			quoted, err := json.Marshal(map[string]string{"type": *typ})
			if err != nil {
				t.Fatal(err)
			}
			want = d.ServerEvent(quoted, nil)
		}
		if whole != want {
			t.Errorf("%q is %v, want %v", msg, whole, want)
		}
		if peeked != want && peeked != EventNone {
			t.Errorf("%q peeked at is %v, want %v", msg, peeked, want)
		}
		if len(msg) <= headMax && peeked != want {
			t.Errorf("%q, in hand as a whole, is %v, want %v", msg, peeked, want)
		}
		if firstKey == "audio" && client != EventAppend {
			t.Errorf("%q is %v, want an append", msg, client)
		}
	})
}

func BenchmarkPeek(b *testing.B) {
	d := dialectNamed(b, "openai")
	run := func(name, msg string, event func(head, tail []byte) Event) {
		head, tail := peek([]byte(msg))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				event(head, tail)
			}
		})
	}
	run("server/type_first", `{"type":"response.output_audio.delta","event_id":"event_1","response_id":"resp_1","delta":"`+base64Audio+`"}`, d.ServerEvent)
	run("server/type_second", `{"event_id":"event_1","type":"response.audio.delta","response_id":"resp_1","delta":"`+base64Audio+`"}`, d.ServerEvent)
	run("server/type_last", `{"event_id":"event_1","delta":"`+base64Audio+`","type":"response.audio.delta"}`, d.ServerEvent)
	run("server/nested_first", `{"event_id":"event_1","item":{"id":"item_1","type":"message","content":[{"type":"text","text":"hello there"}]},"type":"conversation.item.added"}`, d.ServerEvent)
	run("client/type_first", `{"type":"input_audio_buffer.append","audio":"`+base64Audio+`"}`, d.ClientEvent)
	run("client/audio_first", `{"audio":"`+base64Audio+`","type":"input_audio_buffer.append"}`, d.ClientEvent)
}
