package dialect

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxMessage bounds the error text that is kept, in bytes.
const maxMessage = 512

// WantsDetail implements Dialect.
func (d *openAI) WantsDetail(ev Event) bool {
	switch ev {
	case EventSessionCreated, EventSessionUpdated, EventResponseCreated, EventResponseDone, EventError, EventSessionEnd:
		return true
	}
	return false
}

// Detail implements Dialect. What matters of a long message stands at either end of it, with the bulk between them cut
// away: first is read forward and last backward, so that both know at which depth they are.
func (d *openAI) Detail(ev Event, first, last []byte) Detail {
	r := detailReader{ev: ev}
	head := cursor{b: first}
	head.object(func(key []byte) bool { return r.root(key, &head) })
	r.readBack(last)
	return r.Detail
}

// detailReader collects the Detail of one message.
type detailReader struct {
	Detail
	ev Event
}

// part returns the name of the root's member that holds what an event has to say, and the reader of its members.
func (r *detailReader) part() (name string, member func(key []byte, c *cursor) bool) {
	switch r.ev {
	case EventResponseCreated, EventResponseDone:
		return "response", r.response
	case EventSessionCreated, EventSessionUpdated:
		return "session", r.session
	default:
		return "error", r.error
	}
}

// root reads a member of the message itself.
func (r *detailReader) root(key []byte, c *cursor) bool {
	name, member := r.part()
	if equals(key, name) {
		if c.peek() == '{' {
			return c.object(func(key []byte) bool { return member(key, c) })
		}
		if name == "error" { // vLLM says it in a string
			return c.text(&r.ErrorMessage)
		}
		return c.skip()
	}
	switch {
	case name == "error" && equals(key, "code"):
		return c.text(&r.ErrorCode)
	case name == "session" && equals(key, "id"): // vLLM has no session object
		return c.text(&r.SessionID)
	}
	return c.skip()
}

func (r *detailReader) session(key []byte, c *cursor) bool {
	var buf [maxName]byte
	switch string(unescape(buf[:0], key)) {
	case "id":
		return c.text(&r.SessionID)
	case "expires_at":
		return c.unixTime(&r.ExpiresAt)
	}
	return c.skip()
}

func (r *detailReader) response(key []byte, c *cursor) bool {
	var buf [maxName]byte
	switch string(unescape(buf[:0], key)) {
	case "id":
		return c.text(&r.ResponseID)
	case "status":
		return c.text(&r.Status)
	case "status_details":
		return c.objectOrSkip(func(key []byte) bool { return r.statusDetails(key, c) })
	case "usage":
		var u Usage
		ok := c.objectOrSkip(func(key []byte) bool { return u.member(key, c) })
		if ok { // half a bill is worse than none
			r.Usage = u
		}
		return ok
	}
	return c.skip()
}

func (r *detailReader) statusDetails(key []byte, c *cursor) bool {
	switch {
	case equals(key, "reason"):
		return c.text(&r.StatusReason)
	case equals(key, "error"):
		return c.objectOrSkip(func(key []byte) bool { return r.error(key, c) })
	}
	return c.skip()
}

// error reads a member of an error object. Its type stands in for a missing code.
func (r *detailReader) error(key []byte, c *cursor) bool {
	var buf [maxName]byte
	switch string(unescape(buf[:0], key)) {
	case "code":
		return c.text(&r.ErrorCode)
	case "type":
		var s string
		ok := c.text(&s)
		if r.ErrorCode == "" {
			r.ErrorCode = s
		}
		return ok
	case "message":
		return c.text(&r.ErrorMessage)
	case "event_id":
		return c.text(&r.Answers)
	}
	return c.skip()
}

func (u *Usage) member(key []byte, c *cursor) bool {
	var buf [maxName]byte
	switch string(unescape(buf[:0], key)) {
	case "input_tokens":
		return c.count(&u.Input)
	case "output_tokens":
		return c.count(&u.Output)
	case "total_tokens":
		return c.count(&u.Total)
	case "input_token_details", "input_tokens_details":
		return c.objectOrSkip(func(key []byte) bool {
			return u.modality(key, c, &u.InputText, &u.InputAudio, &u.InputImage, &u.InputCached)
		})
	case "output_token_details", "output_tokens_details":
		var none int64
		return c.objectOrSkip(func(key []byte) bool { return u.modality(key, c, &u.OutputText, &u.OutputAudio, &none, &none) })
	}
	return c.skip()
}

func (*Usage) modality(key []byte, c *cursor, text, audio, image, cached *int64) bool {
	var buf [maxName]byte
	switch string(unescape(buf[:0], key)) {
	case "text_tokens":
		return c.count(text)
	case "audio_tokens":
		return c.count(audio)
	case "image_tokens":
		return c.count(image)
	case "cached_tokens":
		return c.count(cached)
	}
	return c.skip()
}

// readBack reads the end of a message. The root's members are read from right to left; where one is cut off, it is the
// long one that holds what the event has to say, and its own members are read the same way.
func (r *detailReader) readBack(last []byte) {
	c := backCursor{b: last}
	if !c.take('}') {
		return
	}
	for {
		rest := c
		key, value, ok := c.member()
		if !ok {
			r.readPartBack(rest)
			return
		}
		v := cursor{b: value}
		r.root(key, &v)
		if !c.take(',') {
			return
		}
	}
}

func (r *detailReader) readPartBack(c backCursor) {
	_, read := r.part()
	if !c.take('}') {
		return
	}
	for {
		key, value, ok := c.member()
		if !ok {
			return
		}
		v := cursor{b: value}
		read(key, &v)
		if !c.take(',') {
			return
		}
	}
}

// objectOrSkip reads an object, or skips what is none, as null.
func (c *cursor) objectOrSkip(member func(key []byte) bool) bool {
	if c.peek() != '{' {
		return c.skip()
	}
	return c.object(member)
}

// text reads a string into dst, of which maxMessage bytes are kept; anything else leaves dst alone.
func (c *cursor) text(dst *string) bool {
	if c.peek() != '"' {
		return c.skip()
	}
	raw, ok := c.str()
	if !ok {
		return false
	}
	if s, err := unquote(raw); err == nil {
		*dst = s
	}
	return true
}

// unquote resolves all escapes of a raw string and bounds the result.
func unquote(raw []byte) (string, error) {
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", err
	}
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "")
	}
	return s, nil
}

// count reads a number of tokens.
func (c *cursor) count(dst *int64) bool {
	f, ok := c.number()
	if f >= 0 && f < math.MaxInt64 {
		*dst = int64(f)
	}
	return ok
}

// unixTime reads seconds since 1970. What no provider could mean, as a time beyond the year 5000, is no limit.
func (c *cursor) unixTime(dst *time.Time) bool {
	f, ok := c.number()
	if f > 0 && f < 1e11 {
		*dst = time.Unix(int64(f), 0)
	}
	return ok
}

// number reads any value, and returns -1 for one that is no number.
func (c *cursor) number() (f float64, ok bool) {
	if ch := c.peek(); ch != '-' && (ch < '0' || ch > '9') {
		return -1, c.skip()
	}
	raw, ok := c.scalar()
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return -1, ok
	}
	return f, ok
}
