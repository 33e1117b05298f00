package sim

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// names are the events whose names changed between the beta and the general API.
type names struct{ text, audio, transcript, textPart, audioPart string }

var (
	gaNames   = names{"response.output_text", "response.output_audio", "response.output_audio_transcript", "output_text", "output_audio"}
	betaNames = names{"response.text", "response.audio", "response.audio_transcript", "text", "audio"}
)

func (c *conn) names() names {
	if c.s.cfg.BetaNames {
		return betaNames
	}
	return gaNames
}

// run sends everything of the response behind response.created.
func (r *response) run() {
	defer close(r.done)
	b := newBatch()
	defer b.free()
	var out []*item
	whole := false
	if r.wait(b, time.Now().Add(r.c.s.cfg.ResponseDelay)) {
		var it *item
		if r.call != nil {
			it, whole = r.callFunction(b)
		} else {
			it, whole = r.say(b)
		}
		out = append(out, it)
	}
	r.finish(b, out, whole)
}

// finish sends response.done, unless the connection ended under the response.
func (r *response) finish(b *batch, out []*item, whole bool) {
	c := r.c
	c.talk.Lock()
	delete(c.active, r.id)
	cut := r.why != ""
	if r.conversationID != "" {
		c.conversation.textTokens += r.usage.OutputDetail.Text
		c.conversation.audioTokens += r.usage.OutputDetail.Audio
	}
	c.talk.Unlock()
	u, n := &r.usage, &c.s.counters
	u.Input = u.InputDetail.Text + u.InputDetail.Audio
	u.Output = u.OutputDetail.Text + u.OutputDetail.Audio
	u.Total = u.Input + u.Output
	status, count := "completed", &n.completed
	if !whole {
		if !cut {
			return
		}
		status, count = "cancelled", &n.cancelled
	}
	c.begin(b, "response.done").json("response", r.object(status, out, u)).end()
	n.ended(count, u, 1) // before the write: a client that has read response.done finds it counted
	if !c.flush(b) {
		n.ended(count, u, -1)
	}
}

// ended counts the end of a response and its bill in, or out again.
func (n *counters) ended(outcome *atomic.Int64, u *usage, sign int64) {
	outcome.Add(sign)
	n.inputTokens.Add(sign * u.Input)
	n.outputTokens.Add(sign * u.Output)
}

// at opens an event about the response's only output item.
func (r *response) at(b *batch, name string, it *item) *batch {
	return r.c.begin(b, name).str("response_id", r.id).str("item_id", it.ID).num("output_index", 0)
}

func (r *response) itemEvent(b *batch, name string, it *item) {
	r.c.begin(b, name).str("response_id", r.id).num("output_index", 0).json("item", it).end()
}

// open announces the output item and puts it into the conversation.
func (r *response) open(b *batch, it *item) (previous string) {
	it.ID, it.Object, it.Status = r.c.newID("item"), "realtime.item", "in_progress"
	r.itemEvent(b, "response.output_item.added", it)
	if r.conversationID == "" {
		return ""
	}
	r.c.talk.Lock()
	previous = r.c.conversation.add(it)
	r.c.talk.Unlock()
	r.c.itemAdded(b, previous, it)
	return previous
}

// shut ends the output item. Others may read it in the conversation, so it changes under the lock.
func (r *response) shut(b *batch, previous string, it *item, whole bool, change func()) {
	r.c.talk.Lock()
	if it.Status = "completed"; !whole {
		it.Status = "incomplete"
	}
	change()
	r.c.talk.Unlock()
	if r.conversationID != "" {
		r.c.itemDone(b, previous, it)
	}
	r.itemEvent(b, "response.output_item.done", it)
}

// say sends a message, spoken or written.
func (r *response) say(b *batch) (*item, bool) {
	names := r.c.names()
	it := &item{Type: "message", Role: "assistant", Content: []part{}}
	previous := r.open(b, it)
	empty, spoken := "", speaks(r.modalities)
	p := part{Type: "text", Text: &empty}
	if spoken {
		p = part{Type: "audio", Transcript: &empty}
	}
	r.at(b, "response.content_part.added", it).num("content_index", 0).json("part", p).end()

	var said string
	var whole bool
	if spoken {
		said, whole = r.speak(b, it)
		r.at(b, names.audio+".done", it).num("content_index", 0).end()
		r.at(b, names.transcript+".done", it).num("content_index", 0).str("transcript", said).end()
		p.Transcript = &said
	} else {
		said, whole = r.write(b, it)
		r.at(b, names.text+".done", it).num("content_index", 0).str("text", said).end()
		p.Text = &said
	}
	r.at(b, "response.content_part.done", it).num("content_index", 0).json("part", p).end()
	r.usage.OutputDetail.Text = words(said)
	r.shut(b, previous, it, whole, func() {
		if p.Type = names.textPart; spoken {
			p.Type = names.audioPart
		}
		it.Content = []part{p}
	})
	return it, whole
}

// write sends the text word by word.
func (r *response) write(b *batch, it *item) (said string, whole bool) {
	for word := range strings.SplitAfterSeq(r.text, " ") {
		if !r.wait(b, time.Time{}) {
			return said, false
		}
		r.delta(b, r.c.names().text, it, word)
		said += word
	}
	return said, true
}

// speak sends the audio at its pace, and a word of the transcript before each piece of it; words left over follow.
func (r *response) speak(b *batch, it *item) (said string, whole bool) {
	names, cfg := r.c.names(), &r.c.s.cfg
	text := slices.Collect(strings.SplitAfterSeq(r.text, " "))
	start := time.Now()
	sent := 0
	defer func() { r.usage.OutputDetail.Audio = outputAudioTokens(int64(sent)) }()
	for sent < cfg.AudioMS || len(text) > 0 {
		if !r.wait(b, start.Add(playTime(sent, cfg.RealtimeFactor))) {
			return said, false
		}
		if len(text) > 0 {
			r.delta(b, names.transcript, it, text[0])
			said += text[0]
			text = text[1:]
		}
		if ms := min(cfg.ChunkMS, cfg.AudioMS-sent); ms > 0 {
			b.audio++
			r.at(b, names.audio+".delta", it).num("content_index", 0).plain("delta", string(r.c.s.tone[:ms*base64PerMS])).end()
			sent += ms
			r.c.talk.Lock()
			it.audioMS = int64(sent)
			r.c.talk.Unlock()
		}
	}
	return said, true
}

// playTime is when audio is due that has ms milliseconds before it.
func playTime(ms int, factor float64) time.Duration {
	if factor == 0 {
		return 0
	}
	return time.Duration(float64(ms) * float64(time.Millisecond) / factor)
}

// delta sends a piece of text.
func (r *response) delta(b *batch, name string, it *item, piece string) {
	b.text++
	r.at(b, name+".delta", it).num("content_index", 0).str("delta", piece).end()
}

// callFunction sends a function call.
func (r *response) callFunction(b *batch) (*item, bool) {
	none, args := "", r.call.arguments()
	it := &item{Type: "function_call", Name: r.call.Name, CallID: r.c.newID("call"), Arguments: &none}
	previous := r.open(b, it)
	sent := ""
	for sent != args && r.wait(b, time.Time{}) {
		piece := clip(args[len(sent):], 16)
		r.at(b, "response.function_call_arguments.delta", it).str("call_id", it.CallID).str("delta", piece).end()
		sent += piece
	}
	whole := sent == args
	if whole {
		r.at(b, "response.function_call_arguments.done", it).str("call_id", it.CallID).str("name", it.Name).str("arguments", args).end()
	}
	r.usage.OutputDetail.Text = words(args)
	r.shut(b, previous, it, whole, func() { it.Arguments = &sent })
	return it, whole
}
