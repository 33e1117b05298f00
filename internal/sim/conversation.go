package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxItems bounds what a conversation remembers; the oldest items go first.
const maxItems = 512

type item struct {
	ID        string  `json:"id,omitempty"`
	Object    string  `json:"object,omitempty"`
	Type      string  `json:"type"`
	Status    string  `json:"status,omitempty"`
	Role      string  `json:"role,omitempty"`
	Content   []part  `json:"content,omitzero"`
	Name      string  `json:"name,omitempty"`
	CallID    string  `json:"call_id,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Output    *string `json:"output,omitempty"`

	audioMS int64 // spoken so far
}

// part is one content part. Audio and images are taken in and not given back.
type part struct {
	Type       string  `json:"type"`
	Text       *string `json:"text,omitempty"`
	Transcript *string `json:"transcript,omitempty"`
}

// MarshalJSON writes the transcript of input audio even where there is none: clients that check their events insist on
// the null.
func (p part) MarshalJSON() ([]byte, error) {
	if p.Type == "input_audio" {
		return json.Marshal(struct {
			Type       string  `json:"type"`
			Transcript *string `json:"transcript"`
		}{p.Type, p.Transcript})
	}
	type plain part
	return json.Marshal(plain(p))
}

type inputKind uint8

const (
	inputNone inputKind = iota
	inputText
	inputAudio
	inputFunction
)

// input is what a response answers: the latest thing said to the model.
type input struct {
	kind inputKind
	text string // user's text or function's output
	ms   int64  // of audio
}

// conversation is guarded by conn.talk.
type conversation struct {
	id                      string
	items                   []*item
	last                    input
	textTokens, audioTokens int64 // of everything said so far, by either side
}

func (v *conversation) find(id string) *item {
	for _, it := range v.items {
		if it.ID == id {
			return it
		}
	}
	return nil
}

// add appends and tells the ID of the item before it.
func (v *conversation) add(it *item) (previous string) {
	if n := len(v.items); n > 0 {
		previous = v.items[n-1].ID
	}
	if len(v.items) == maxItems {
		v.items = slices.Delete(v.items, 0, 1)
	}
	v.items = append(v.items, it)
	return previous
}

// inputOf is what an item says to the model; kind is inputNone when it says nothing to answer.
func inputOf(it *item) input {
	switch {
	case it.Type == "function_call_output" && it.Output != nil:
		return input{kind: inputFunction, text: *it.Output}
	case it.Type == "message" && it.Role == "user":
		if text := textOf(it); text != "" {
			return input{kind: inputText, text: text}
		}
	}
	return input{}
}

func textOf(it *item) string {
	var texts []string
	for _, p := range it.Content {
		if p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.Join(texts, " ")
}

// words counts what the simulator calls text tokens.
func words(s string) int64 { return int64(len(strings.Fields(s))) }

func (c *conn) createItem(b *batch, ev *clientEvent) {
	var it item
	if !isSet(ev.Item) {
		c.fault(b, fault{code: "missing_required_parameter", param: "item", message: "the event has no item", eventID: ev.EventID})
		return
	}
	if err := json.Unmarshal(ev.Item, &it); err != nil {
		f := decodeFault(err, "item")
		f.eventID = ev.EventID
		c.fault(b, f)
		return
	}
	if it.Type != "message" && it.Type != "function_call" && it.Type != "function_call_output" {
		c.fault(b, fault{code: "invalid_value", param: "item.type", message: fmt.Sprintf("item type %q is not supported", it.Type), eventID: ev.EventID})
		return
	}
	if it.ID == "" {
		it.ID = c.newID("item")
	}
	it.Object, it.Status = "realtime.item", "completed"
	if it.Type == "message" && it.Content == nil {
		it.Content = []part{}
	}
	c.talk.Lock()
	known := ev.PreviousItemID == "" || ev.PreviousItemID == "root" || c.conversation.find(ev.PreviousItemID) != nil
	var previous string
	if known {
		previous = c.conversation.add(&it)
		if ev.PreviousItemID != "" {
			previous = ev.PreviousItemID
		}
		if in := inputOf(&it); in.kind != inputNone {
			c.conversation.last = in
			c.conversation.textTokens += words(in.text)
		}
	}
	c.talk.Unlock()
	if !known {
		c.fault(b, fault{code: "invalid_value", param: "previous_item_id", message: "no item has the ID " + ev.PreviousItemID, eventID: ev.EventID})
		return
	}
	c.itemAdded(b, previous, &it)
	c.itemDone(b, previous, &it)
}

// itemAdded announces an item in either generation's words; itemDone has no beta event.
func (c *conn) itemAdded(b *batch, previous string, it *item) {
	name := "conversation.item.added"
	if c.s.cfg.BetaNames {
		name = "conversation.item.created"
	}
	c.begin(b, name).strOrNull("previous_item_id", previous).json("item", it).end()
}

func (c *conn) itemDone(b *batch, previous string, it *item) {
	if !c.s.cfg.BetaNames {
		c.begin(b, "conversation.item.done").strOrNull("previous_item_id", previous).json("item", it).end()
	}
}

func (c *conn) deleteItem(b *batch, ev *clientEvent) {
	c.talk.Lock()
	before := len(c.conversation.items)
	c.conversation.items = slices.DeleteFunc(c.conversation.items, func(it *item) bool { return it.ID == ev.ItemID })
	found := len(c.conversation.items) < before
	c.talk.Unlock()
	if !found {
		c.fault(b, fault{code: "item_delete_invalid_item_id", param: "item_id", message: "no item has the ID " + ev.ItemID, eventID: ev.EventID})
		return
	}
	c.begin(b, "conversation.item.deleted").str("item_id", ev.ItemID).end()
}

func (c *conn) retrieveItem(b *batch, ev *clientEvent) {
	c.talk.Lock()
	it := c.conversation.find(ev.ItemID)
	var data []byte
	if it != nil {
		data, _ = json.Marshal(it) // under the lock: a response may still be writing it
	}
	c.talk.Unlock()
	if it == nil {
		c.fault(b, fault{code: "item_retrieve_invalid_item_id", param: "item_id", message: "no item has the ID " + ev.ItemID, eventID: ev.EventID})
		return
	}
	c.begin(b, "conversation.item.retrieved").raw("item", string(data)).end()
}

func (c *conn) truncateItem(b *batch, ev *clientEvent) {
	f := fault{code: "item_truncate_invalid_item_id", param: "item_id", eventID: ev.EventID}
	c.talk.Lock()
	it := c.conversation.find(ev.ItemID)
	switch {
	case it == nil:
		f.message = "no item has the ID " + ev.ItemID
	case it.Type != "message" || it.Role != "assistant":
		f.message = "only the assistant's messages can be truncated"
	case ev.ContentIndex != 0:
		f = fault{code: "invalid_value", param: "content_index", eventID: ev.EventID, message: "the item has one content part"}
	case ev.AudioEndMS < 0 || ev.AudioEndMS > it.audioMS:
		f = fault{code: "invalid_value", param: "audio_end_ms", eventID: ev.EventID,
			message: fmt.Sprintf("the item has %d ms of audio, not %d", it.audioMS, ev.AudioEndMS)}
	default:
		it.audioMS = ev.AudioEndMS
	}
	c.talk.Unlock()
	if f.message != "" {
		c.fault(b, f)
		return
	}
	c.begin(b, "conversation.item.truncated").str("item_id", ev.ItemID).num("content_index", 0).num("audio_end_ms", ev.AudioEndMS).end()
}
