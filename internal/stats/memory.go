package stats

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Memory is what the process holds, in bytes.
type Memory struct {
	// RSS is the resident set.
	RSS uint64
	// Heap and Stacks are the Go runtime's heap in use, garbage not collected yet included, and goroutine stacks.
	Heap, Stacks uint64
	// HeapIdle is heap that holds nothing and was not given back to the system; Runtime is what else the Go runtime has
	// from the system. Memory it has and never touched is not resident: the parts may sum up to more than RSS.
	HeapIdle, Runtime uint64
	// Baseline is the RSS before the first session.
	Baseline uint64
	// Sessions is how many sessions RSS serves: live and warm.
	Sessions int
	// PerSession is RSS over Baseline, divided by Sessions; 0 without sessions.
	PerSession float64
}

// WithSessions returns m with Baseline, Sessions and PerSession filled in. An RSS below the baseline, as after memory
// was given back to the system, counts as nothing per session.
func (m Memory) WithSessions(baseline uint64, sessions int) Memory {
	m.Baseline, m.Sessions, m.PerSession = baseline, sessions, 0
	if sessions > 0 && m.RSS > baseline {
		m.PerSession = float64(m.RSS-baseline) / float64(sessions)
	}
	return m
}

// ErrFormat is wrapped by the errors of ParseStatm and ParseStatus.
var ErrFormat = errors.New("not in the format of proc(5)")

// ParseStatm returns the resident set, in bytes, from the text of /proc/PID/statm.
func ParseStatm(text []byte, pageSize int) (rss uint64, err error) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: %w", ErrFormat)
	}
	resident, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("statm: %w: %w", ErrFormat, err)
	}
	return resident * uint64(pageSize), nil
}

// Status is the part of /proc/PID/status that says how much memory a process holds, in bytes.
type Status struct {
	RSS     uint64 // VmRSS
	PeakRSS uint64 // VmHWM
	Anon    uint64 // RssAnon: heap and stacks, without the pages of files
	Swap    uint64 // VmSwap
	Threads uint64
}

// ParseStatus reads the text of /proc/PID/status. Lines a kernel does not write leave their field 0; a text without
// VmRSS is an error.
func ParseStatus(text []byte) (Status, error) {
	var s Status
	fields := map[string]*uint64{"VmRSS": &s.RSS, "VmHWM": &s.PeakRSS, "RssAnon": &s.Anon, "VmSwap": &s.Swap, "Threads": &s.Threads}
	seen := false
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		dst := fields[string(name)]
		if dst == nil {
			continue
		}
		n, err := parseAmount(value)
		if err != nil {
			return Status{}, fmt.Errorf("status: %s: %w", name, err)
		}
		*dst = n
		seen = seen || dst == &s.RSS
	}
	if !seen {
		return Status{}, fmt.Errorf("status: no VmRSS: %w", ErrFormat)
	}
	return s, nil
}

// parseAmount reads "12", or "12 kB" as bytes.
func parseAmount(value []byte) (uint64, error) {
	fields := bytes.Fields(value)
	if len(fields) == 0 {
		return 0, ErrFormat
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(fields) == 1 {
		return n, nil
	}
	if string(fields[1]) != "kB" {
		return 0, fmt.Errorf("unit %q: %w", fields[1], ErrFormat)
	}
	return n << 10, nil
}
