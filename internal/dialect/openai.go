package dialect

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// openAI is the dialect of OpenAI's Realtime API, GA and beta names alike, and of those that speak it.
type openAI struct {
	name     string
	base     *url.URL // nil: must be configured
	defaults Defaults
}

func init() {
	register(&openAI{
		name: "openai",
		base: &url.URL{Scheme: "wss", Host: "api.openai.com", Path: "/v1/realtime"},
		// The provider ends a session after 60 minutes.
		defaults: Defaults{MaxIdle: 45 * time.Second, MaxAge: 45 * time.Minute, MinRemaining: 15 * time.Minute},
	})
}

// Name implements Dialect.
func (d *openAI) Name() string { return d.name }

// Defaults implements Dialect.
func (d *openAI) Defaults() Defaults { return d.defaults }

// Target implements Dialect. No subprotocol is offered: the credential goes in a header, and nothing else a subprotocol
// says is left once the headers are set.
func (d *openAI) Target(up Upstream, ask Ask) (Target, error) {
	base := up.BaseURL
	if base == nil {
		base = d.base
	}
	if base == nil {
		return Target{}, fmt.Errorf("%w: the %s dialect has no address of its own; configure a base URL", ErrUpstream, d.name)
	}
	up.Dialect = d.name
	u, err := realtimeURL(base)
	if err != nil {
		return Target{}, err
	}
	q, queryBypass, err := query(u, up, ask)
	if err != nil {
		return Target{}, err
	}
	u.RawQuery = q.Encode()
	h, headerBypass := headers(up, ask)
	if err := checkHeaders(h); err != nil {
		return Target{}, err
	}
	t := Target{URL: u, Header: h, Name: targetName(up, ask)}
	t.Key = targetKey(d.name, t)
	switch {
	case ask.CallID != "":
		t.Bypass = "call_id"
	case strings.HasPrefix(up.Credential, "ek_"):
		t.Bypass = "client secret"
	case queryBypass != "":
		t.Bypass = queryBypass
	default:
		t.Bypass = headerBypass
	}
	return t, nil
}

// openings are the beginnings of nearly all messages of a call, as encoders write them with and without spaces, the type or
// an id first.
var openings = func() (o [numEvents][]Opening) {
	for ev, types := range map[Event][]string{
		EventAppend:     {"input_audio_buffer.append"},
		EventAudioDelta: {"response.output_audio.delta", "response.audio.delta"},
		EventTextDelta: {
			"response.output_audio_transcript.delta", "response.output_text.delta", "response.audio_transcript.delta", "response.text.delta",
		},
	} {
		for _, t := range types {
			o[ev] = append(o[ev],
				Opening{Prefix: `{"type":"` + t + `"`}, Opening{`{"event_id":"`, `","type":"` + t + `"`},
				Opening{Prefix: `{"type": "` + t + `"`}, Opening{`{"event_id": "`, `", "type": "` + t + `"`})
		}
	}
	o[EventAppend] = append(o[EventAppend], Opening{Prefix: `{"audio":`}) // no other message of a client has that key
	return o
}()

// Opening implements Dialect.
func (d *openAI) Opening(ev Event, head []byte) Opening {
	if i := slices.IndexFunc(openings[ev], func(o Opening) bool { return o.opens(head) }); i >= 0 {
		return openings[ev][i]
	}
	return Opening{}
}

// NewReady implements Dialect.
func (d *openAI) NewReady() Ready { return openAIReady{d} }

// ServerEvent implements Dialect.
func (d *openAI) ServerEvent(head, tail []byte) Event {
	raw := findString(head, tail, "type")
	if raw == nil {
		return EventNone
	}
	var buf [maxName]byte
	switch string(unescape(buf[:0], raw)) {
	case "session.created":
		return EventSessionCreated
	case "session.updated":
		return EventSessionUpdated
	case "session.finished":
		return EventSessionEnd
	case "input_audio_buffer.speech_started":
		return EventSpeechStarted
	case "input_audio_buffer.speech_stopped":
		return EventSpeechStopped
	case "input_audio_buffer.committed":
		return EventCommitted
	case "response.created":
		return EventResponseCreated
	case "response.output_text.delta", "response.output_audio_transcript.delta", "response.text.delta", "response.audio_transcript.delta":
		return EventTextDelta
	case "response.output_audio.delta", "response.audio.delta":
		return EventAudioDelta
	case "response.done":
		return EventResponseDone
	case "error":
		return EventError
	}
	return EventOther
}

// ClientEvent implements Dialect.
func (d *openAI) ClientEvent(head, tail []byte) Event {
	c := cursor{b: head}
	key, ok := c.firstKey()
	if ok && equals(key, "audio") { // only an append has it, and its type may be a megabyte away
		return EventAppend
	}
	raw := c.findString(key, ok, tail, "type")
	if raw == nil {
		return EventNone
	}
	var buf [maxName]byte
	switch string(unescape(buf[:0], raw)) {
	case "session.update":
		return EventSessionUpdate
	case "input_audio_buffer.append":
		return EventAppend
	case "input_audio_buffer.commit":
		return EventCommit
	case "response.create":
		return EventResponseCreate
	case "response.cancel":
		return EventCancel
	case "conversation.item.truncate":
		return EventTruncate
	}
	return EventOther
}

// ResponseID implements Dialect.
func (d *openAI) ResponseID(head, tail []byte) []byte { return findString(head, tail, "response_id") }

const lossEvent = `{"type":"error","event_id":"event_rtd_upstream_lost","error":{"type":"server_error","code":"upstream_connection_lost",` +
	`"message":"The connection to the upstream was lost. Connect again to continue.","param":null,"event_id":null}}`

// LossEvent implements Dialect.
func (d *openAI) LossEvent() []byte { return []byte(lossEvent) }

// ExpiryEvent implements Dialect. The type is rtd's own, since the protocol has none: not every SDK takes that.
func (d *openAI) ExpiryEvent(left time.Duration) []byte {
	return fmt.Appendf(nil, `{"type":"rtd.session.expiring","event_id":"event_rtd_session_expiring","expires_in_ms":%d}`, left.Milliseconds())
}
