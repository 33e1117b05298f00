package bench

import (
	"errors"
	"strings"
	"testing"
)

func turns(values ...Measured) []Measured { return values }

func TestRatiosCompareTurnByTurn(t *testing.T) {
	r := &PeersReport{Peers: []Peer{
		{Name: PeerHAProxy, Turns: turns(
			Measured{IdleBytes: 4000, CPUMicros: 10, Added: Latency{0.1, 1}}, Measured{IdleBytes: 8000, CPUMicros: 20, Added: Latency{0.2, 2}},
			Measured{IdleBytes: 4000, CPUMicros: 10, Added: Latency{-0.1, 1}})},
		{Name: PeerRTD, Turns: turns(
			Measured{IdleBytes: 1000, CPUMicros: 5, Added: Latency{0.05, 3}}, Measured{IdleBytes: 1000, CPUMicros: 20, Added: Latency{0.4, 4}},
			Measured{IdleBytes: 1000, CPUMicros: 10, Added: Latency{0.05, 1}})},
	}}
	r.compare()
	want := Ratio{
		Peer: PeerHAProxy, Idle: Range{0.25, 0.125, 0.25}, CPU: Range{1, 0.5, 1}, Tail: Range{2, 1, 3},
		Added: Range{0.5, 0.5, 2}, // two turns: in the third haproxy's is below the noise
	}
	if len(r.Ratios) != 1 || r.Ratios[0] != want {
		t.Errorf("ratios %+v, want %+v", r.Ratios, want)
	}
	alone := &PeersReport{Peers: []Peer{{Name: PeerHAProxy}, {Name: PeerNginx}}}
	if alone.compare(); len(alone.Ratios) > 0 {
		t.Errorf("ratios without rtd: %+v", alone.Ratios)
	}
}

// What a program holds for few sessions can be less than what its collector gave back meanwhile.
func TestNoFigureOfAPeerIsNegative(t *testing.T) {
	r := &PeersReport{Peers: []Peer{
		{Name: PeerRTD, Turns: turns(Measured{IdleBytes: -500, CPUMicros: 5, Added: Latency{-0.1, 1}}, Measured{IdleBytes: 1024, CPUMicros: 5, Added: Latency{0.1, 1}})},
		{Name: PeerNginx, Turns: turns(Measured{IdleBytes: 2048, CPUMicros: 5, Added: Latency{0.1, 1}}, Measured{IdleBytes: 2048, CPUMicros: 5, Added: Latency{0.1, 1}})},
	}}
	r.compare()
	rows := r.Table().Rows
	if got := rows[0][1:4]; got[0] != "≈0 (≈0…1.00)" || got[1] != "5.00 µs (5.00…5.00)" || got[2] != "≈0 (≈0…0.100)" {
		t.Errorf("rtd %q", got)
	}
	if got := rows[2][1]; got != "0.50 (0.50…0.50)" {
		t.Errorf("ratio %q, want that of the turn that tells", got)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "≈0: ") {
		t.Errorf("nothing explains ≈0 in %s", notes)
	}
}

func TestPeersThatCannotBe(t *testing.T) {
	f := func(cfg PeersConfig) {
		t.Helper()
		if _, err := Peers(t.Context(), cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	f(PeersConfig{Peers: []string{"apache"}})
	f(PeersConfig{Peers: []string{PeerRTD, PeerRTD}})
	f(PeersConfig{Idle: -1})
	f(PeersConfig{Sessions: -1})
	f(PeersConfig{Duration: 1})
}
