package sim

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// maxActive bounds the responses in progress on a connection.
const maxActive = 32

// responseParams is the response object of response.create: what it leaves out comes from the session.
type responseParams struct {
	OutputModalities []string        `json:"output_modalities"`
	Modalities       []string        `json:"modalities"` // beta
	Instructions     *string         `json:"instructions"`
	Tools            json.RawMessage `json:"tools"`
	ToolChoice       json.RawMessage `json:"tool_choice"`
	Conversation     string          `json:"conversation"` // "none": out of band
	Metadata         json.RawMessage `json:"metadata"`
	Input            *[]item         `json:"input"`
}

// response is one response in progress. What it will say is fixed at its start.
type response struct {
	c              *conn
	id             string
	conversationID string // "" out of band
	modalities     []string
	metadata       json.RawMessage
	call           *tool
	text           string
	usage          usage

	stop sync.Once
	cut  chan struct{} // closed on cancellation
	why  string        // set before cut is closed
	done chan struct{} // closed when its last event has been written
}

type usage struct {
	Total        int64       `json:"total_tokens"`
	Input        int64       `json:"input_tokens"`
	Output       int64       `json:"output_tokens"`
	InputDetail  inputUsage  `json:"input_token_details"`
	OutputDetail outputUsage `json:"output_token_details"`
}

type inputUsage struct {
	Text   int64 `json:"text_tokens"`
	Audio  int64 `json:"audio_tokens"`
	Image  int64 `json:"image_tokens"`
	Cached int64 `json:"cached_tokens"`
}

type outputUsage struct {
	Text  int64 `json:"text_tokens"`
	Audio int64 `json:"audio_tokens"`
}

type responseObject struct {
	Object         string          `json:"object"`
	ID             string          `json:"id"`
	Status         string          `json:"status"`
	StatusDetails  *statusDetails  `json:"status_details"`
	Output         []*item         `json:"output"`
	ConversationID *string         `json:"conversation_id"`
	OutputMods     []string        `json:"output_modalities,omitempty"`
	BetaModalities []string        `json:"modalities,omitempty"`
	Usage          *usage          `json:"usage"`
	Metadata       json.RawMessage `json:"metadata"`
}

type statusDetails struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

func (c *conn) createResponse(b *batch, ev *clientEvent) {
	var p responseParams
	if isSet(ev.Response) {
		if err := json.Unmarshal(ev.Response, &p); err != nil {
			f := decodeFault(err, "response")
			f.eventID = ev.EventID
			c.fault(b, f)
			return
		}
	}
	if c.transcription {
		c.fault(b, fault{code: "invalid_value", param: "type", message: "a transcription session gives no responses", eventID: ev.EventID})
		return
	}
	c.startResponse(b, p, ev.EventID)
}

// startResponse announces a response and starts the goroutine that sends the rest of it.
func (c *conn) startResponse(b *batch, p responseParams, eventID string) {
	r, f := c.planResponse(p)
	if f != nil {
		f.eventID = eventID
		c.fault(b, *f)
		return
	}
	c.talk.Lock()
	previous, over := c.main, true
	oob := r.conversationID == ""
	if !oob && previous != nil {
		_, running := c.active[previous.id]
		over = !running
	}
	crowded := len(c.active) >= maxActive
	c.talk.Unlock()
	if !over || crowded { // only this goroutine starts responses, so that neither can become true meanwhile
		c.fault(b, fault{code: "conversation_already_has_active_response", message: "a response is in progress; wait for its response.done or cancel it", eventID: eventID})
		return
	}
	if !oob && previous != nil {
		<-previous.done // it has sent its response.done or is about to
	}
	c.talk.Lock()
	if c.active == nil {
		c.active = map[string]*response{}
	}
	c.active[r.id] = r
	if !oob {
		c.main = r
	}
	c.talk.Unlock()

	c.responsesN.Add(1)
	c.s.counters.responses.Add(1)
	c.begin(b, "response.created").json("response", r.object("in_progress", nil, nil)).end()
	c.flush(b)
	c.responding.Go(r.run)
}

// planResponse decides what the response will be.
func (c *conn) planResponse(p responseParams) (*response, *fault) {
	set := c.currentSession().settings()
	for _, m := range [][]string{p.Modalities, p.OutputModalities} {
		if m != nil {
			set.modalities = m
		}
	}
	if p.Tools != nil {
		set.tools = p.Tools
	}
	if p.ToolChoice != nil {
		set.toolChoice = p.ToolChoice
	}
	if p.Instructions != nil {
		set.instructions = *p.Instructions
	}
	tools, err := parseTools(set.tools)
	if err != nil {
		f := decodeFault(err, "response.tools")
		return nil, &f
	}
	r := &response{c: c, id: c.newID("resp"), modalities: set.modalities, metadata: p.Metadata, cut: make(chan struct{}), done: make(chan struct{})}
	if r.metadata == nil {
		r.metadata = raw("null")
	}
	c.talk.Lock()
	v := &c.conversation
	in := v.last
	r.usage.InputDetail = inputUsage{Text: v.textTokens, Audio: v.audioTokens}
	if p.Conversation != "none" {
		if v.id == "" {
			v.id = c.newID("conv")
		}
		r.conversationID = v.id
	}
	c.talk.Unlock()
	if p.Input != nil {
		in = input{}
		r.usage.InputDetail = inputUsage{}
		for i := range *p.Input {
			if one := inputOf(&(*p.Input)[i]); one.kind != inputNone {
				in = one
				r.usage.InputDetail.Text += words(one.text)
			}
		}
	}
	r.usage.InputDetail.Text += words(set.instructions)
	if r.call = chooseTool(tools, set.toolChoice, in); r.call == nil {
		r.text = answerTo(in)
	}
	return r, nil
}

// answerTo is what the assistant says.
func answerTo(in input) string {
	const limit = 1024 // bytes of the input
	switch in.kind {
	case inputText:
		return "You said: " + clip(in.text, limit)
	case inputAudio:
		return fmt.Sprintf("I heard %d ms of audio.", in.ms)
	case inputFunction:
		return "The function answered: " + clip(in.text, limit)
	}
	return "Hello from the scripted upstream."
}

func (r *response) object(status string, output []*item, u *usage) responseObject {
	o := responseObject{
		Object: "realtime.response", ID: r.id, Status: status, Output: output, Usage: u, Metadata: r.metadata, ConversationID: orNil(r.conversationID),
	}
	if o.Output == nil {
		o.Output = []*item{}
	}
	if status == "cancelled" {
		o.StatusDetails = &statusDetails{"cancelled", r.why}
	}
	if r.c.s.cfg.BetaNames {
		o.BetaModalities = r.modalities
	} else {
		o.OutputMods = r.modalities
	}
	return o
}

// cancel ends the response early and returns when its response.done has been written. It is false when it was over.
func (r *response) cancel(why string) bool {
	r.c.talk.Lock()
	_, running := r.c.active[r.id]
	if running {
		r.stop.Do(func() { r.why = why; close(r.cut) })
	}
	r.c.talk.Unlock()
	if running {
		<-r.done
	}
	return running
}

func (c *conn) cancelResponse(b *batch, ev *clientEvent) {
	c.talk.Lock()
	r := c.main
	if ev.ResponseID != "" {
		r = c.active[ev.ResponseID]
	}
	c.talk.Unlock()
	if r == nil || !r.cancel("client_cancelled") {
		c.fault(b, fault{code: "response_cancel_not_active", message: "no response is in progress", eventID: ev.EventID})
	}
}

// interrupt cancels the conversation's response because the user speaks.
func (c *conn) interrupt(b *batch) {
	c.flush(b) // speech_started comes before what it brings about
	c.talk.Lock()
	r := c.main
	c.talk.Unlock()
	if r != nil {
		r.cancel("turn_detected")
	}
}

// wait pauses until t; it is false when the response was cancelled or the connection has gone.
func (r *response) wait(b *batch, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		select {
		case <-r.cut:
			return false
		case <-r.c.gone:
			return false
		default:
			return len(b.frames) < flushAt || r.c.flush(b)
		}
	}
	if !r.c.flush(b) {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.cut:
		return false
	case <-r.c.gone:
		return false
	}
}
