package dialect

// Event is what a message means to the gateway.
type Event uint8

// The events. Names of both generations of a protocol, and of all dialects, map to the same event.
const (
	// EventNone is a message whose type could not be found.
	EventNone Event = iota
	// EventOther is a message of a type that marks nothing.
	EventOther

	// Of the server.

	EventSessionCreated
	EventSessionUpdated
	// EventSessionEnd announces that the upstream will not go on with the session.
	EventSessionEnd
	EventSpeechStarted
	EventSpeechStopped
	EventCommitted
	EventResponseCreated
	// EventTextDelta is a piece of the answer's text or transcript.
	EventTextDelta
	EventAudioDelta
	EventResponseDone
	EventError

	// Of the client.

	EventSessionUpdate
	EventAppend
	EventCommit
	EventResponseCreate
	EventCancel
	EventTruncate

	numEvents
)

var eventNames = [numEvents]string{
	"none", "other", "session_created", "session_updated", "session_end", "speech_started", "speech_stopped", "committed",
	"response_created", "text_delta", "audio_delta", "response_done", "error",
	"session_update", "append", "commit", "response_create", "cancel", "truncate",
}

// String returns the event's stable name.
func (e Event) String() string {
	if e < numEvents {
		return eventNames[e]
	}
	return "unknown"
}
