package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync/atomic"
	"time"
)

// maxEnded is how many ended connections Stats remembers.
const maxEnded = 4096

// Stats is a snapshot of what the server has seen. It is also the answer of GET /sim/stats.
type Stats struct {
	Dials       int64 `json:"dials"`       // upgrade requests
	Accepted    int64 `json:"accepted"`    // answered with 101
	Refused     int64 `json:"refused"`     // answered with another status, by a failure rule or not
	Failed      int64 `json:"failed"`      // dials a failure rule acted on
	Handshaking int64 `json:"handshaking"` // upgrade requests not answered yet
	Open        int64 `json:"open"`
	PeakOpen    int64 `json:"peak_open"`
	PeakTotal   int64 `json:"peak_total"` // most open and handshaking together

	Responses          int64 `json:"responses"` // created
	ResponsesCompleted int64 `json:"responses_completed"`
	ResponsesCancelled int64 `json:"responses_cancelled"`
	Turns              int64 `json:"turns"` // audio turns committed, by the client or by voice activity

	InputTokens  int64 `json:"input_tokens"` // billed, of responses that ended
	OutputTokens int64 `json:"output_tokens"`

	ClientMessages int64 `json:"client_messages"`
	AudioMessages  int64 `json:"audio_messages"` // the input_audio_buffer.append among them
	ServerMessages int64 `json:"server_messages"`
	TextDeltas     int64 `json:"text_deltas"` // text and transcript deltas among them
	AudioDeltas    int64 `json:"audio_deltas"`
	ErrorsSent     int64 `json:"errors_sent"`     // error events among them
	ProtocolErrors int64 `json:"protocol_errors"` // connections ended for broken framing

	BytesIn      int64 `json:"bytes_in"`       // payload of client messages
	BytesOut     int64 `json:"bytes_out"`      // payload of server messages
	AudioBytesIn int64 `json:"audio_bytes_in"` // decoded

	Connections []ConnStats `json:"connections"` // by ID: all that are open, and the last 4096 that ended
}

// ConnStats is one upgraded connection.
type ConnStats struct {
	ID             int64     `json:"id"` // counts from 1 in the order of the 101s
	SessionID      string    `json:"session_id"`
	Model          string    `json:"model"`
	Credential     string    `json:"credential"` // Fingerprint of what the client presented
	Beta           string    `json:"beta"`       // OpenAI-Beta header
	Subprotocol    string    `json:"subprotocol"`
	Open           bool      `json:"open"`
	OpenedAt       time.Time `json:"opened_at"`
	ClientMessages int64     `json:"client_messages"`
	AudioBytesIn   int64     `json:"audio_bytes_in"`
	Responses      int64     `json:"responses"`
	CloseCode      int       `json:"close_code"` // of the peer's Close: 1005 without a code, 1006 when it ended without one, 0 while open
}

// Fingerprint tells credentials apart without revealing them; "" for none.
func Fingerprint(credential string) string {
	if credential == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:6])
}

// census counts connections by state.
type census struct{ handshaking, open, peakOpen, peakTotal int64 }

func (c *census) dialled() {
	c.handshaking++
	c.peakTotal = max(c.peakTotal, c.handshaking+c.open)
}

func (c *census) opened() {
	c.open++
	c.peakOpen = max(c.peakOpen, c.open)
	c.handshaking--
}

type counters struct {
	dials, accepted, refused, failed            atomic.Int64
	responses, completed, cancelled, turns      atomic.Int64
	inputTokens, outputTokens                   atomic.Int64
	clientMessages, audioMessages               atomic.Int64
	serverMessages, textDeltas, audioDeltas     atomic.Int64
	errorsSent, protocolErrors                  atomic.Int64
	bytesIn, bytesOut, audioBytesIn, nextConnID atomic.Int64
}

// sent counts a batch in, or out again.
func (n *counters) sent(b *batch, sign int64) {
	n.serverMessages.Add(sign * b.events)
	n.bytesOut.Add(sign * b.bytes)
	n.textDeltas.Add(sign * b.text)
	n.audioDeltas.Add(sign * b.audio)
	n.errorsSent.Add(sign * b.errors)
}

// endedConns is a ring of the last connections that ended.
type endedConns struct {
	ring []ConnStats
	next int
}

func (e *endedConns) add(s ConnStats) {
	if len(e.ring) < maxEnded {
		e.ring = append(e.ring, s)
		return
	}
	e.ring[e.next] = s
	e.next = (e.next + 1) % maxEnded
}

// Stats takes a snapshot.
func (s *Server) Stats() Stats {
	n := &s.counters
	st := Stats{
		Dials: n.dials.Load(), Accepted: n.accepted.Load(), Refused: n.refused.Load(), Failed: n.failed.Load(),
		Responses: n.responses.Load(), ResponsesCompleted: n.completed.Load(), ResponsesCancelled: n.cancelled.Load(), Turns: n.turns.Load(),
		InputTokens: n.inputTokens.Load(), OutputTokens: n.outputTokens.Load(),
		ClientMessages: n.clientMessages.Load(), AudioMessages: n.audioMessages.Load(), ServerMessages: n.serverMessages.Load(),
		TextDeltas: n.textDeltas.Load(), AudioDeltas: n.audioDeltas.Load(),
		ErrorsSent: n.errorsSent.Load(), ProtocolErrors: n.protocolErrors.Load(),
		BytesIn: n.bytesIn.Load(), BytesOut: n.bytesOut.Load(), AudioBytesIn: n.audioBytesIn.Load(),
	}
	s.mu.Lock()
	st.Handshaking, st.Open, st.PeakOpen, st.PeakTotal = s.census.handshaking, s.census.open, s.census.peakOpen, s.census.peakTotal
	st.Connections = append(make([]ConnStats, 0, len(s.ended.ring)+len(s.conns)), s.ended.ring...)
	for _, c := range s.conns {
		st.Connections = append(st.Connections, c.stats(true))
	}
	s.mu.Unlock()
	slices.SortFunc(st.Connections, func(a, b ConnStats) int { return cmp.Compare(a.ID, b.ID) })
	return st
}
