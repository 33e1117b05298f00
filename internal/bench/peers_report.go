package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// PeersReport is what a run of Peers found out.
type PeersReport struct {
	Kind    string     `json:"kind"` // "peers"
	Schema  int        `json:"schema_version"`
	Commit  string     `json:"commit"`
	Started time.Time  `json:"started"`
	Host    Host       `json:"host"`
	Config  PeersSetup `json:"config"`
	Peers   []Peer     `json:"peers"`
	// Ratios hold rtd against each other peer; empty without rtd.
	Ratios  []Ratio  `json:"rtd_ratios"`
	Invalid []string `json:"invalid"`
}

// PeersSetup is what a run was told.
type PeersSetup struct {
	Idle     int     `json:"idle_sessions"`
	Sessions int     `json:"speaking_sessions"`
	Period   float64 `json:"period_ms"`
	Duration float64 `json:"duration_ms"`
	Repeat   int     `json:"repeat"`
}

// Latency in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Peer is what one program gave.
type Peer struct {
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Turns   []Measured `json:"turns"`
}

// Measured is one turn of one peer. IdleBytes and Added are differences: what is not above zero was below the noise.
type Measured struct {
	IdleBytes float64 `json:"rss_per_idle_session_bytes"`
	CPUMicros float64 `json:"cpu_us_per_frame"`
	Frames    uint64  `json:"frames"` // both ways
	Round     Latency `json:"round_ms"`
	// Direct is the same past the peer, in the same seconds; Added is what the peer makes of it.
	Direct Latency `json:"direct_round_ms"`
	Added  Latency `json:"added_ms"`
}

// Ratio is rtd's figure as a multiple of a peer's, turn by turn: below 1 rtd takes less.
type Ratio struct {
	Peer  string `json:"peer"`
	Idle  Range  `json:"rss_per_idle_session"`
	CPU   Range  `json:"cpu_per_frame"`
	Added Range  `json:"added_p50"`
	Tail  Range  `json:"added_p99"`
}

// Range is a median with the lowest and highest of all turns.
type Range struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func newPeersReport(cfg *PeersConfig, programs map[string]string) *PeersReport {
	r := &PeersReport{
		Kind: "peers", Schema: Schema, Started: time.Now().UTC().Truncate(time.Millisecond), Host: thisHost(), Invalid: []string{}, Ratios: []Ratio{},
		Config: PeersSetup{cfg.Idle, cfg.Sessions, ms(cfg.Period), ms(cfg.Duration), cfg.Repeat},
	}
	for _, name := range cfg.Peers {
		r.Peers = append(r.Peers, Peer{Name: name, Version: version(name, programs[name])})
	}
	return r
}

// columns are the figures of a Measured that are compared.
var columns = []struct {
	of    func(*Measured) float64
	ratio func(*Ratio) *Range
}{
	{func(m *Measured) float64 { return m.IdleBytes }, func(r *Ratio) *Range { return &r.Idle }},
	{func(m *Measured) float64 { return m.CPUMicros }, func(r *Ratio) *Range { return &r.CPU }},
	{func(m *Measured) float64 { return m.Added.P50 }, func(r *Ratio) *Range { return &r.Added }},
	{func(m *Measured) float64 { return m.Added.P99 }, func(r *Ratio) *Range { return &r.Tail }},
}

// compare holds rtd against the others, each turn with the same turn of the other.
func (r *PeersReport) compare() {
	at := slices.IndexFunc(r.Peers, func(p Peer) bool { return p.Name == PeerRTD })
	if at < 0 {
		return
	}
	rtd := &r.Peers[at]
	for i := range r.Peers {
		if i == at {
			continue
		}
		other := &r.Peers[i]
		ratio := Ratio{Peer: other.Name}
		for _, column := range columns {
			var values []float64
			for turn := range min(len(rtd.Turns), len(other.Turns)) {
				ours, theirs := column.of(&rtd.Turns[turn]), column.of(&other.Turns[turn])
				if ours > 0 && theirs > 0 { // what is below the noise has no ratio
					values = append(values, micros(ours/theirs))
				}
			}
			*column.ratio(&ratio) = rangeOf(values)
		}
		r.Ratios = append(r.Ratios, ratio)
	}
}

func rangeOf(values []float64) Range {
	if len(values) == 0 {
		return Range{}
	}
	values = slices.Sorted(slices.Values(values))
	return Range{Median: values[(len(values)-1)/2], Low: values[0], High: values[len(values)-1]}
}

// Table is the comparison for people: the median of each peer with the range of its turns, then the ratios.
func (r *PeersReport) Table() Table {
	t := Table{Heading: []string{"PEER", "RSS/IDLE SESSION", "CPU/FRAME", "ADDED P50", "ADDED P99"}}
	units := []func(float64) string{
		func(v float64) string { return number(v/1024) + " KiB" },
		func(v float64) string { return number(v) + " µs" },
		func(v float64) string { return number(v) + " ms" },
		func(v float64) string { return number(v) + " ms" },
	}
	for i := range r.Peers {
		row := []string{r.Peers[i].Name}
		for c, column := range columns {
			var values []float64
			for turn := range r.Peers[i].Turns {
				values = append(values, column.of(&r.Peers[i].Turns[turn]))
			}
			row = append(row, rangeOf(values).text(units[c]))
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range r.Ratios {
		row := []string{"rtd / " + r.Ratios[i].Peer}
		for _, column := range columns {
			row = append(row, column.ratio(&r.Ratios[i]).text(func(v float64) string { return fmt.Sprintf("%.2f", v) }))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// belowNoise stands for a difference of two measurements that is not above zero: it says nothing more than that.
const belowNoise = "≈0"

func (g Range) text(known func(float64) string) string {
	if g == (Range{}) {
		return dash
	}
	unit := func(v float64) string {
		if v <= 0 {
			return belowNoise
		}
		return known(v)
	}
	low, _, _ := strings.Cut(unit(g.Low), " ")
	high, _, _ := strings.Cut(unit(g.High), " ")
	return fmt.Sprintf("%s (%s…%s)", unit(g.Median), low, high)
}

// noisy says that a difference was not above zero.
func (r *PeersReport) noisy() bool {
	for i := range r.Peers {
		for _, m := range r.Peers[i].Turns {
			if m.IdleBytes <= 0 || m.Added.P50 <= 0 || m.Added.P99 <= 0 {
				return true
			}
		}
	}
	return false
}

// Notes are the lines below the table.
func (r *PeersReport) Notes() []string {
	c := &r.Config
	notes := []string{
		fmt.Sprintf("Medians of %d turns and their range. Memory over %d idle sessions; then %d sessions with a chunk every %g ms each way for %g s, and as many past the peer. No TLS.",
			c.Repeat, c.Idle, c.Sessions, c.Period, c.Duration/1000),
		"Added: the way there and back, less that past the peer in the same seconds. Below 1 a ratio says that rtd takes less.",
	}
	if r.noisy() {
		notes = append(notes, belowNoise+": a difference below the noise, of which no ratio is made. More idle sessions, more turns or a quieter machine tell.")
	}
	var p50, p99 []float64
	for i := range r.Peers {
		for _, m := range r.Peers[i].Turns {
			p50, p99 = append(p50, m.Direct.P50), append(p99, m.Direct.P99)
		}
	}
	unit := func(v float64) string { return number(v) + " ms" }
	notes = append(notes, "direct: there and back "+rangeOf(p50).text(unit)+" at p50, "+rangeOf(p99).text(unit)+" at p99")
	for _, p := range r.Peers {
		if p.Version != "" {
			notes = append(notes, p.Name+": "+p.Version)
		}
	}
	for _, why := range r.Invalid {
		notes = append(notes, "INVALID: "+why)
	}
	return notes
}
