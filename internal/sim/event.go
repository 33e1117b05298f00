package sim

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/gobwas/ws"
)

// flushAt is how many bytes of events wait for each other before they are written.
const flushAt = 32 << 10

// batch gathers events, so that those of one moment leave in one write.
type batch struct {
	frames                             []byte
	event                              []byte // the event being built
	events, bytes, text, audio, errors int64
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

func (b *batch) free() {
	if cap(b.frames) > 4*flushAt || cap(b.event) > 4*flushAt {
		return // one big echo must not stay for ever
	}
	b.reset()
	batches.Put(b)
}

func (b *batch) reset() { *b = batch{frames: b.frames[:0], event: b.event[:0]} }

// begin opens an event: type first, event_id second, as the provider writes them.
func (c *conn) begin(b *batch, typ string) *batch {
	b.event = append(b.event[:0], `{"type":"`...)
	b.event = append(b.event, typ...)
	b.event = append(b.event, `","event_id":"`...)
	b.event = append(b.event, c.newID("event")...)
	b.event = append(b.event, '"')
	return b
}

func (b *batch) key(k string) {
	b.event = append(b.event, ',', '"')
	b.event = append(b.event, k...)
	b.event = append(b.event, '"', ':')
}

func (b *batch) str(k, v string) *batch {
	b.key(k)
	b.event = appendString(b.event, v)
	return b
}

// plain takes a string that needs no escapes.
func (b *batch) plain(k, v string) *batch {
	b.key(k)
	b.event = append(b.event, '"')
	b.event = append(b.event, v...)
	b.event = append(b.event, '"')
	return b
}

// strOrNull is null for "".
func (b *batch) strOrNull(k, v string) *batch {
	if v == "" {
		return b.raw(k, "null")
	}
	return b.str(k, v)
}

func (b *batch) num(k string, v int64) *batch {
	b.key(k)
	b.event = strconv.AppendInt(b.event, v, 10)
	return b
}

// raw takes v as it stands.
func (b *batch) raw(k, v string) *batch {
	b.key(k)
	b.event = append(b.event, v...)
	return b
}

// json takes values of this package's own types, which always marshal.
func (b *batch) json(k string, v any) *batch {
	b.key(k)
	data, _ := json.Marshal(v)
	b.event = append(b.event, data...)
	return b
}

func (b *batch) end() {
	b.event = append(b.event, '}')
	b.frames = appendFrame(b.frames, ws.OpText, b.event)
	b.events++
	b.bytes += int64(len(b.event))
}

// appendString appends v as a JSON string.
func appendString(dst []byte, v string) []byte {
	for i := range len(v) {
		if ch := v[i]; ch < ' ' || ch > '~' || ch == '"' || ch == '\\' || ch == '<' || ch == '>' || ch == '&' {
			data, _ := json.Marshal(v) // strings always marshal
			return append(dst, data...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, v...)
	return append(dst, '"')
}

// fault is an error event in the provider's shape.
type fault struct {
	code, message, param string
	eventID              string // of the client's event
}

func (c *conn) fault(b *batch, f fault) {
	b.errors++
	c.begin(b, "error").json("error", struct {
		Type    string  `json:"type"`
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
		EventID *string `json:"event_id"`
	}{"invalid_request_error", f.code, f.message, orNil(f.param), orNil(f.eventID)}).end()
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

const base36 = "0123456789abcdefghijklmnopqrstuvwxyz"

// newID makes an identifier of the provider's length: the prefix, then the server's tag, the connection and a count.
func (c *conn) newID(prefix string) string {
	var digits [17]byte
	put := func(field []byte, n int64) {
		for i := len(field) - 1; i >= 0; i-- {
			field[i] = base36[n%36]
			n /= 36
		}
	}
	put(digits[:8], c.id)
	put(digits[8:], c.ids.Add(1))
	return prefix + "_" + c.s.tag + string(digits[:])
}
