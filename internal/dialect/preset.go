package dialect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/gobwas/ws"
)

// Bounds of a preset, in bytes. Its session goes out with every dial, and what answers it waits in every warm session.
const (
	MaxPresetName = 64
	MaxPreset     = 256 << 10
)

// Preset is what sessions are configured with before a client has them. Nobody changes it.
type Preset struct {
	// Name is what people and clients call it.
	Name string
	// Session is a JSON object: the session as the provider's own event has it that updates one.
	Session []byte
}

// named is what people call a target whose sessions have the preset; name is what they call it without. A nil p is none.
func (p *Preset) named(name string) string {
	if p == nil {
		return name
	}
	return name + "+" + p.Name
}

// With is the target whose sessions have a preset, nil for none. The preset's name and session are in its Key.
func (t Target) With(p *Preset) Target {
	if p == nil {
		return t
	}
	mac := hmac.New(sha256.New, keySecret)
	for _, s := range []string{t.Key, p.Name, string(p.Session)} {
		digestString(mac, s)
	}
	t.Preset, t.Key, t.Name = p, hex.EncodeToString(mac.Sum(nil)), p.named(t.Name)
	return t
}

// PresetError is why a session has not got its preset. Err is an *UpstreamError, or what befell the connection.
type PresetError struct {
	Name string
	Err  error
}

func (e *PresetError) Error() string { return fmt.Sprintf("preset %q: %v", e.Name, e.Err) }
func (e *PresetError) Unwrap() error { return e.Err }

// presetEvent is the id of the event that asks for a preset; an error that answers it repeats it.
const presetEvent = "event_rtd_preset"

// Preset implements Dialect.
func (d *openAI) Preset(p *Preset) (message []byte, answer Ready) {
	const head = `{"type":"session.update","event_id":"` + presetEvent + `","session":`
	return slices.Concat([]byte(head), p.Session, []byte("}")), openAIPreset{d}
}

// openAIPreset waits for session.updated. An error without an id answers the update too: nothing else was sent.
type openAIPreset struct{ d *openAI }

// Frame implements Ready.
func (r openAIPreset) Frame(_ ws.OpCode, payload []byte) (done bool, info SessionInfo, err error) {
	switch ev := r.d.ServerEvent(payload, nil); ev {
	case EventSessionUpdated:
		d := r.d.Detail(ev, payload, nil)
		return true, SessionInfo{ID: d.SessionID, ExpiresAt: d.ExpiresAt}, nil
	case EventError:
		if id := r.d.Detail(ev, payload, nil).Answers; id != "" && id != presetEvent {
			return false, SessionInfo{}, ParkedVerdict(r.d, payload)
		}
		return false, SessionInfo{}, eventError(r.d, ev, payload)
	case EventSessionEnd:
		return false, SessionInfo{}, eventError(r.d, ev, payload)
	}
	return false, SessionInfo{}, nil
}
