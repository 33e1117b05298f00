package dialect

import (
	"fmt"

	"github.com/gobwas/ws"
)

// UpstreamError is an upstream's own account of why a session is of no use: an error event, or the end of the connection.
type UpstreamError struct {
	// Code is that of an error event, never empty for one. Message is the event's, or the reason of a Close.
	Code, Message string
	// Close is the status of a Close frame; 0 when there was none.
	Close ws.StatusCode
}

func (e *UpstreamError) Error() string {
	s := "upstream ended the session"
	switch {
	case e.Close != 0:
		s = fmt.Sprintf("upstream closed the session with %d", e.Close)
	case e.Code != "":
		s = "upstream sent error " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// openAIReady waits for session.created. What else comes first, as conversation.created does from some servers, is
// neither here nor there; an error means that the session is not warm.
type openAIReady struct{ d *openAI }

// Frame implements Ready.
func (r openAIReady) Frame(_ ws.OpCode, payload []byte) (done bool, info SessionInfo, err error) {
	switch ev := r.d.ServerEvent(payload, nil); ev {
	case EventSessionCreated:
		d := r.d.Detail(ev, payload, nil)
		return true, SessionInfo{ID: d.SessionID, ExpiresAt: d.ExpiresAt}, nil
	case EventError, EventSessionEnd:
		return false, SessionInfo{}, eventError(r.d, ev, payload)
	}
	return false, SessionInfo{}, nil
}

// eventError is the error that an event tells of.
func eventError(d Dialect, ev Event, payload []byte) error {
	detail := d.Detail(ev, payload, nil)
	e := &UpstreamError{Code: detail.ErrorCode, Message: detail.ErrorMessage}
	switch {
	case e.Code != "":
	case ev == EventSessionEnd:
		e.Code = "session_ended"
	default:
		e.Code = "error"
	}
	return e
}

// benign are the errors that answer a client's mistake and say nothing about the session.
var benign = map[string]bool{
	"response_cancel_not_active":               true,
	"conversation_already_has_active_response": true,
	"input_audio_buffer_commit_empty":          true,
}

// ParkedVerdict judges a data message that arrived on a session no client has yet: nil keeps the session, and the
// message as part of its prelude; an error, always an *UpstreamError, evicts it.
func ParkedVerdict(d Dialect, payload []byte) error {
	switch ev := d.ServerEvent(payload, nil); ev {
	case EventError:
		if benign[d.Detail(ev, payload, nil).ErrorCode] {
			return nil
		}
		return eventError(d, ev, payload)
	case EventSessionEnd:
		return eventError(d, ev, payload)
	}
	return nil
}
