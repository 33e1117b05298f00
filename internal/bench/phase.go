package bench

import "time"

// phase is one interval of a call.
type phase uint8

const (
	phaseDial phase = iota // just before the dial to 101 read
	phaseDNS
	phaseTCP
	phaseTLS
	phaseUpgrade
	phaseSession    // 101 read to session.created read
	phaseReady      // both together: it alone compares a hit with a miss, whichever side of the 101 the wait falls on
	phaseFirstAudio // just before response.create is written to the first audio delta read
	phaseTotal      // due to the first audio delta read
	phaseClose      // Close sent to Close received; not part of the total
	phaseReadyHit   // ready by what the gateway's Rtd-Pool header said
	phaseReadyMiss
	phaseReadyBypass
	numPhases
)

var phaseNames = [numPhases]string{
	"dial", "dns", "tcp", "tls", "upgrade", "session", "ready", "first_audio", "total", "close", "ready_hit", "ready_miss", "ready_bypass",
}

func (p phase) String() string { return phaseNames[p] }

func phaseNamed(name string) (phase, bool) {
	for p, n := range phaseNames {
		if n == name {
			return phase(p), true
		}
	}
	return 0, false
}

// sample is what one call measured.
type sample struct {
	took  [numPhases]time.Duration
	pool  string // of the Rtd-Pool header, "" for none
	cause string // of the failure, "" for a success
	ours  bool   // the generator lacked the means; the call says nothing about the target
	clean bool   // the closing handshake was completed
}

// phases is which intervals a successful call has.
func (s *sample) phases(yield func(phase, time.Duration) bool) {
	for p := phaseDial; p <= phaseTotal; p++ {
		if (p == phaseDNS || p == phaseTLS) && s.took[p] == 0 {
			continue // an address needs no look-up, and ws no TLS
		}
		if !yield(p, s.took[p]) {
			return
		}
	}
	if s.clean && !yield(phaseClose, s.took[phaseClose]) {
		return
	}
	if p, ok := phaseNamed("ready_" + s.pool); ok {
		yield(p, s.took[phaseReady])
	}
}
