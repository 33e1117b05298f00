package stats

// Phase is one timed stretch of a session, in most cases; the last ones repeat with every chunk.
type Phase uint8

// The phases, in the order a session goes through them.
const (
	// PhaseAccept runs from accept to the end of authentication and routing.
	PhaseAccept Phase = iota
	// PhasePoolWait is the time spent waiting for the pool: zero or nearly so on a hit, the rest of the dial on a miss.
	PhasePoolWait
	// PhaseDNS, PhaseTCP, PhaseTLS and PhaseUpgrade are the steps of the dial behind the session.
	PhaseDNS
	PhaseTCP
	PhaseTLS
	PhaseUpgrade
	// PhaseDial is those four together.
	PhaseDial
	// PhaseUpstreamReady runs from the upstream's 101 to its last ready frame.
	PhaseUpstreamReady
	// PhaseReady is what the client waited: from accept to its 101 being written, with session.created in hand.
	PhaseReady
	// PhaseFirstFrame runs from the client's 101 to its first message.
	PhaseFirstFrame
	// PhaseCreated runs from the end of the user's turn to the upstream's word that it answers.
	PhaseCreated
	// PhaseFirstText runs from the end of the user's turn to the first text or transcript of the answer.
	PhaseFirstText
	// PhaseFirstAudio runs from the end of the user's turn to the first audio of the answer.
	PhaseFirstAudio
	// PhaseTurn runs from the end of the user's turn to the end of the answer.
	PhaseTurn

	// PhaseAddedUp and PhaseAddedDown are what the gateway itself adds: from readable to written, of what was read at once,
	// towards the upstream and towards the client.
	PhaseAddedUp
	PhaseAddedDown
	// PhaseJitterInUp and PhaseJitterInDown are how far the gap between two chunks of audio, as they came, is from the
	// session's own median gap; see Cadence.
	PhaseJitterInUp
	PhaseJitterInDown
	// PhaseJitterOutUp and PhaseJitterOutDown are the same as they were written. What exceeds the way in is the gateway's.
	PhaseJitterOutUp
	PhaseJitterOutDown

	// NumPhases is how many phases there are.
	NumPhases = int(PhaseJitterOutDown) + 1
)

var phaseNames = [NumPhases]string{
	"accept", "pool_wait", "dns", "tcp", "tls", "upgrade", "dial", "upstream_ready", "ready",
	"first_frame", "created", "first_text", "first_audio", "turn",
	"added_up", "added_down", "jitter_in_up", "jitter_in_down", "jitter_out_up", "jitter_out_down",
}

// String returns the phase's stable name, as used in tables, JSON and metrics.
func (p Phase) String() string {
	if int(p) < NumPhases {
		return phaseNames[p]
	}
	return "unknown"
}

// Result is how a session got its upstream.
type Result uint8

// The results.
const (
	// Hit: a warm session was waiting.
	Hit Result = iota
	// Miss: the client waited for a dial of the pool.
	Miss
	// Bypass: the session may not be pooled and was dialled for this client alone.
	Bypass

	// NumResults is how many results there are.
	NumResults = int(Bypass) + 1
)

var resultNames = [NumResults]string{"hit", "miss", "bypass"}

// String returns the result's stable name, which is also the value of the Rtd-Pool response header.
func (r Result) String() string {
	if int(r) < NumResults {
		return resultNames[r]
	}
	return "unknown"
}
