package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// session is what session.update changes. The two shapes of the API are two structs, so that an update is decoded onto
// the current values and what it does not name keeps them.
type session struct {
	ga   *gaSession
	beta *betaSession
}

type gaSession struct {
	Type             string          `json:"type"`
	Object           string          `json:"object"`
	ID               string          `json:"id"`
	Model            string          `json:"model,omitempty"`
	OutputModalities []string        `json:"output_modalities"`
	Instructions     string          `json:"instructions"`
	Tools            json.RawMessage `json:"tools"`
	ToolChoice       json.RawMessage `json:"tool_choice"`
	MaxOutputTokens  json.RawMessage `json:"max_output_tokens"`
	Tracing          json.RawMessage `json:"tracing"`
	Prompt           json.RawMessage `json:"prompt"`
	ExpiresAt        int64           `json:"expires_at,omitempty"`
	Audio            sessionAudio    `json:"audio"`
	Include          json.RawMessage `json:"include"`
}

type sessionAudio struct {
	Input struct {
		Format         json.RawMessage `json:"format"`
		Transcription  json.RawMessage `json:"transcription"`
		NoiseReduction json.RawMessage `json:"noise_reduction"`
		TurnDetection  *turnDetection  `json:"turn_detection"`
	} `json:"input"`
	Output struct {
		Format json.RawMessage `json:"format"`
		Voice  json.RawMessage `json:"voice"`
		Speed  float64         `json:"speed"`
	} `json:"output"`
}

type betaSession struct {
	ID              string          `json:"id"`
	Object          string          `json:"object"`
	Model           string          `json:"model,omitempty"`
	ExpiresAt       int64           `json:"expires_at,omitempty"`
	Modalities      []string        `json:"modalities"`
	Instructions    string          `json:"instructions"`
	Voice           json.RawMessage `json:"voice"`
	InputFormat     json.RawMessage `json:"input_audio_format"`
	OutputFormat    json.RawMessage `json:"output_audio_format"`
	Transcription   json.RawMessage `json:"input_audio_transcription"`
	TurnDetection   *turnDetection  `json:"turn_detection"`
	Tools           json.RawMessage `json:"tools"`
	ToolChoice      json.RawMessage `json:"tool_choice"`
	Temperature     float64         `json:"temperature"`
	MaxOutputTokens json.RawMessage `json:"max_response_output_tokens"`
}

// turnDetection is voice activity detection; an update replaces it whole, what it leaves out goes back to the default.
type turnDetection struct {
	Type              string  `json:"type"`
	Threshold         float64 `json:"threshold,omitempty"`
	Eagerness         string  `json:"eagerness,omitempty"`
	PrefixPaddingMS   int64   `json:"prefix_padding_ms"`
	SilenceDurationMS int64   `json:"silence_duration_ms"`
	CreateResponse    bool    `json:"create_response"`
	InterruptResponse bool    `json:"interrupt_response"`
}

func defaultTurnDetection() turnDetection {
	return turnDetection{Type: "server_vad", Threshold: 0.5, PrefixPaddingMS: 300, SilenceDurationMS: 500, CreateResponse: true, InterruptResponse: true}
}

var errTurnDetection = errors.New("turn_detection must be server_vad or semantic_vad with durations from 0 to 60000 ms")

// UnmarshalJSON fills what data leaves out with the defaults.
func (t *turnDetection) UnmarshalJSON(data []byte) error {
	type plain turnDetection
	next := plain(defaultTurnDetection())
	if err := json.Unmarshal(data, &next); err != nil {
		return err
	}
	for _, ms := range []int64{next.PrefixPaddingMS, next.SilenceDurationMS} {
		if ms < 0 || ms > 60_000 {
			return errTurnDetection
		}
	}
	if next.Type != "server_vad" && next.Type != "semantic_vad" {
		return errTurnDetection
	}
	*t = turnDetection(next)
	return nil
}

func (s session) MarshalJSON() ([]byte, error) {
	if s.beta != nil {
		return json.Marshal(s.beta)
	}
	return json.Marshal(s.ga)
}

// currentSession is the session in force. The default is made anew each time: idle connections keep none.
func (c *conn) currentSession() session {
	if c.session != nil {
		return *c.session
	}
	td := defaultTurnDetection()
	if c.s.cfg.BetaNames {
		return session{beta: &betaSession{
			ID: c.sessionID, Object: "realtime.session", Model: c.model, ExpiresAt: c.expiresAt,
			Modalities: []string{"text", "audio"}, Voice: raw(`"alloy"`), InputFormat: raw(`"pcm16"`), OutputFormat: raw(`"pcm16"`),
			Transcription: raw("null"), TurnDetection: &td, Tools: raw("[]"), ToolChoice: raw(`"auto"`), Temperature: 0.8, MaxOutputTokens: raw(`"inf"`),
		}}
	}
	ga := &gaSession{
		Type: "realtime", Object: "realtime.session", ID: c.sessionID, Model: c.model, ExpiresAt: c.expiresAt,
		OutputModalities: []string{"audio"}, Tools: raw("[]"), ToolChoice: raw(`"auto"`), MaxOutputTokens: raw(`"inf"`),
		Tracing: raw("null"), Prompt: raw("null"), Include: raw("null"),
	}
	if c.transcription {
		ga.Type, ga.Object = "transcription", "realtime.transcription_session"
	}
	const pcm = `{"type":"audio/pcm","rate":24000}`
	in, out := &ga.Audio.Input, &ga.Audio.Output
	in.Format, in.Transcription, in.NoiseReduction, in.TurnDetection = raw(pcm), raw("null"), raw("null"), &td
	out.Format, out.Voice, out.Speed = raw(pcm), raw(`"marin"`), 1
	return session{ga: ga}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// updateSession decodes the client's session onto a copy of the current one and puts the copy in force.
func (c *conn) updateSession(update json.RawMessage) error {
	next := c.currentSession().clone()
	var err error
	if next.beta != nil {
		err = json.Unmarshal(update, next.beta)
		next.beta.ID, next.beta.Object, next.beta.Model, next.beta.ExpiresAt = c.sessionID, "realtime.session", c.model, c.expiresAt
	} else {
		typ, object := next.ga.Type, next.ga.Object
		err = json.Unmarshal(update, next.ga)
		next.ga.Type, next.ga.Object, next.ga.ID, next.ga.Model, next.ga.ExpiresAt = typ, object, c.sessionID, c.model, c.expiresAt
	}
	if err != nil {
		return err
	}
	if _, err := parseTools(next.settings().tools); err != nil {
		return err
	}
	c.session = &next
	return nil
}

// clone copies deeply: decoding writes into the slices it finds.
func (s session) clone() session {
	data, _ := json.Marshal(s) // its own types always marshal
	if s.beta != nil {
		next := session{beta: new(betaSession)}
		_ = json.Unmarshal(data, next.beta)
		return next
	}
	next := session{ga: new(gaSession)}
	_ = json.Unmarshal(data, next.ga)
	return next
}

// settings is what the conversation needs of a session, in either shape.
type settings struct {
	modalities        []string
	instructions      string
	tools, toolChoice json.RawMessage
	turnDetection     *turnDetection
	transcribe        bool
}

func (s session) settings() settings {
	if b := s.beta; b != nil {
		return settings{b.Modalities, b.Instructions, b.Tools, b.ToolChoice, b.TurnDetection, isSet(b.Transcription)}
	}
	g := s.ga
	return settings{g.OutputModalities, g.Instructions, g.Tools, g.ToolChoice, g.Audio.Input.TurnDetection, isSet(g.Audio.Input.Transcription)}
}

func isSet(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// speaks reports whether a response with these modalities has audio.
func speaks(modalities []string) bool { return slices.Contains(modalities, "audio") }

// decodeFault describes why a client's object could not be decoded.
func decodeFault(err error, param string) fault {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		if typeErr.Field != "" {
			param += "." + typeErr.Field
		}
		return fault{code: "invalid_type", param: param, message: fmt.Sprintf("%s cannot be a JSON %s", param, typeErr.Value)}
	}
	return fault{code: "invalid_value", param: param, message: "invalid " + param + ": " + err.Error()}
}
