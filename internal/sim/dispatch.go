package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gobwas/ws"
)

const appendType = "input_audio_buffer.append"

// clientEvent holds the fields of every client event this server understands.
type clientEvent struct {
	Type           string          `json:"type"`
	EventID        string          `json:"event_id"`
	Audio          *string         `json:"audio"`
	Session        json.RawMessage `json:"session"`
	Item           json.RawMessage `json:"item"`
	Response       json.RawMessage `json:"response"`
	PreviousItemID string          `json:"previous_item_id"`
	ItemID         string          `json:"item_id"`
	ContentIndex   int64           `json:"content_index"`
	AudioEndMS     int64           `json:"audio_end_ms"`
	ResponseID     string          `json:"response_id"`
}

var handlers = map[string]func(c *conn, b *batch, ev *clientEvent){
	appendType:                   (*conn).appendAudio,
	"input_audio_buffer.commit":  (*conn).commitAudio,
	"input_audio_buffer.clear":   (*conn).clearAudio,
	"session.update":             (*conn).sessionUpdate,
	"conversation.item.create":   (*conn).createItem,
	"conversation.item.delete":   (*conn).deleteItem,
	"conversation.item.retrieve": (*conn).retrieveItem,
	"conversation.item.truncate": (*conn).truncateItem,
	"response.create":            (*conn).createResponse,
	"response.cancel":            (*conn).cancelResponse,
}

// handle answers one message. Its events are written before it returns, except those a response sends later.
func (c *conn) handle(op ws.OpCode, msg []byte) {
	c.clientMessages.Add(1)
	c.s.counters.clientMessages.Add(1)
	c.s.counters.bytesIn.Add(int64(len(msg)))
	b := newBatch()
	defer b.free()
	defer c.flush(b)
	if op != ws.OpText {
		c.fault(b, fault{code: "invalid_value", message: "events are JSON in text messages, not binary ones"})
		return
	}
	if audio, eventID, ok := plainAppend(msg); ok {
		if c.trap == nil || !c.spring(appendType, string(eventID)) {
			c.takeAudio(b, audio, eventID)
		}
		return
	}
	var ev clientEvent
	if err := json.Unmarshal(msg, &ev); err != nil {
		f := fault{code: "invalid_json", message: "the message is not a JSON object"}
		var typeErr *json.UnmarshalTypeError
		if errors.As(err, &typeErr) && typeErr.Field != "" {
			f = fault{code: "invalid_type", param: typeErr.Field, message: fmt.Sprintf("%s cannot be a JSON %s", typeErr.Field, typeErr.Value)}
		}
		f.eventID = ev.EventID
		c.fault(b, f)
		return
	}
	answer := handlers[ev.Type]
	switch {
	case c.spring(ev.Type, ev.EventID):
	case ev.Type == "":
		c.fault(b, fault{code: "missing_required_parameter", param: "type", message: "the event has no type", eventID: ev.EventID})
	case answer == nil:
		c.fault(b, fault{code: "invalid_value", param: "type", message: fmt.Sprintf("unknown event type %q", clip(ev.Type, 64)), eventID: ev.EventID})
	default:
		answer(c, b, &ev)
	}
}

func (c *conn) sessionUpdate(b *batch, ev *clientEvent) {
	if !isSet(ev.Session) {
		c.fault(b, fault{code: "missing_required_parameter", param: "session", message: "the event has no session", eventID: ev.EventID})
		return
	}
	if err := c.updateSession(ev.Session); err != nil {
		f := decodeFault(err, "session")
		f.eventID = ev.EventID
		c.fault(b, f)
		return
	}
	c.begin(b, "session.updated").json("session", c.currentSession()).end()
}

// plainAppend finds the audio of an append that is a flat object of strings without escapes, which is what clients send
// fifty times a second. Anything else is left to encoding/json.
func plainAppend(msg []byte) (audio, eventID []byte, ok bool) {
	rest, ok := token(msg, '{')
	isAppend := false
	for ok {
		var key, value []byte
		if key, rest, ok = plainString(rest); !ok {
			break
		}
		if rest, ok = token(rest, ':'); !ok {
			break
		}
		if value, rest, ok = plainString(rest); !ok {
			break
		}
		switch string(key) {
		case "type":
			isAppend = string(value) == appendType
		case "audio":
			audio = value
		case "event_id":
			eventID = value
		}
		if end, done := token(rest, '}'); done {
			return audio, eventID, isAppend && audio != nil && len(skipSpace(end)) == 0
		}
		rest, ok = token(rest, ',')
	}
	return nil, nil, false
}

func skipSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// token skips white space and one character.
func token(b []byte, want byte) ([]byte, bool) {
	b = skipSpace(b)
	if len(b) == 0 || b[0] != want {
		return b, false
	}
	return b[1:], true
}

// plainString reads a JSON string without escapes.
func plainString(b []byte) (value, rest []byte, ok bool) {
	if b, ok = token(b, '"'); !ok {
		return nil, b, false
	}
	end := bytes.IndexByte(b, '"')
	if end < 0 || bytes.IndexByte(b[:end], '\\') >= 0 {
		return nil, b, false
	}
	return b[:end], b[end+1:], true
}
