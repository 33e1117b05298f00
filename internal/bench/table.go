package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Table is the comparison for people, a row for each leg; milliseconds. The first column is text, the others are numbers.
type Table struct {
	Heading []string
	Rows    [][]string
}

// Table compares the legs.
func (r *Report) Table() Table {
	t := Table{Heading: []string{"LEG", "CALLS", "SUCCESS", "DIAL", "SESSION", "READY", "AUDIO", "TOTAL P50", "P95", "P99", "CLOSE", "VS DIRECT", "HITS", "<1 MS"}}
	for i := range r.Legs {
		l := &r.Legs[i]
		hits := dash
		if l.Hits != nil {
			hits = percentage(*l.Hits) + "%"
		}
		quick := dash
		if l.OK > 0 {
			quick = percentage(l.Quick) + "%"
		}
		row := []string{l.Name, strconv.FormatUint(l.Calls, 10), percentage(l.Success) + "%"}
		for _, p := range []phase{phaseDial, phaseSession, phaseReady, phaseFirstAudio} {
			row = append(row, l.p50(p))
		}
		total := l.Phases[phaseTotal.String()]
		row = append(row, l.p50(phaseTotal), cell(&total, total.P95), cell(&total, total.P99), l.p50(phaseClose), versus(l.Overhead), hits, quick)
		t.Rows = append(t.Rows, row)
	}
	return t
}

const (
	dash      = "-"
	plusMinus = "±"
)

// p50 is a phase's median, and its spread where there are repeats.
func (l *Leg) p50(p phase) string {
	f := l.Phases[p.String()]
	text := cell(&f, f.P50)
	if f.Spread != nil && f.Count > 0 {
		text += plusMinus + number(f.Spread.P50)
	}
	return text
}

func cell(f *Figures, v float64) string {
	if f.Count == 0 {
		return dash
	}
	return number(v)
}

// versus is how much slower or faster than the direct leg the median is ready.
func versus(over *float64) string {
	switch {
	case over == nil:
		return dash
	case *over < 0:
		return number(-*over) + " faster"
	}
	return number(*over) + " slower"
}

// number shows three digits that mean something, and no more than three behind the point.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs < 0.9995:
		return fmt.Sprintf("%.3f", v)
	case abs < 9.995:
		return fmt.Sprintf("%.2f", v)
	case abs < 999.5:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// percentage never rounds up to a hundred what is not.
func percentage(v float64) string {
	switch {
	case v >= 100:
		return "100"
	case v > 99:
		return strconv.FormatFloat(math.Floor(v*100)/100, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Notes are the lines below the table: what failed and why, how the generator fared, and the verdict.
func (r *Report) Notes() []string {
	notes := []string{"Medians in ms over the calls that succeeded; ready = dial + session."}
	for i := range r.Legs {
		l := &r.Legs[i]
		for _, cause := range slices.SortedFunc(maps.Keys(l.Failures), func(a, b string) int {
			if l.Failures[a] != l.Failures[b] {
				return int(l.Failures[b]) - int(l.Failures[a])
			}
			return strings.Compare(a, b)
		}) {
			notes = append(notes, fmt.Sprintf("%s: %d failed: %s", l.Name, l.Failures[cause], cause))
		}
		if l.Unclean > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d closing handshakes not completed", l.Name, l.Unclean))
		}
	}
	g := &r.Generator
	line := fmt.Sprintf("Generator: %.1f s, late by %s ms at p99, %.0f%% of %d CPUs", g.Seconds, number(g.Late.P99), 100*g.CPUShare, r.Host.CPUs)
	if g.Queued.Count > 0 {
		line += fmt.Sprintf("; %d calls waited for a free worker, at most %s ms", g.Queued.Count, number(g.Queued.Max))
	}
	notes = append(notes, line)
	for _, a := range r.Assertions {
		if a.Held {
			notes = append(notes, "held: "+a.Text+", "+a.Found)
		}
	}
	for _, why := range r.Failed {
		notes = append(notes, "FAILED: "+why)
	}
	for _, why := range r.Invalid {
		notes = append(notes, "INVALID: "+why)
	}
	return notes
}

// Markdown is a table and its notes, for a pull request or an issue.
func Markdown(t Table, notes []string) string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(t.Heading, " | ") + " |\n|---" + strings.Repeat("|---:", len(t.Heading)-1) + "|\n")
	for _, row := range t.Rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	b.WriteString("\n")
	for _, note := range notes {
		b.WriteString("- " + strings.ReplaceAll(note, "<", "&lt;") + "\n")
	}
	return b.String()
}

// WriteCSV writes a line for each leg and phase that has samples, with the counts of the leg repeated in each.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := []string{"leg", "calls", "ok", "success_percent", "hits_percent", "session_under_1ms_percent", "phase"}
	for _, stat := range statNames {
		if stat != "count" {
			stat += "_ms"
		}
		head = append(head, stat)
	}
	_ = c.Write(head) // Error reports it
	for i := range r.Legs {
		l := &r.Legs[i]
		hits := ""
		if l.Hits != nil {
			hits = trimmed(*l.Hits)
		}
		for _, name := range phaseNames {
			f, ok := l.Phases[name]
			if !ok {
				continue
			}
			row := []string{l.Name, strconv.FormatUint(l.Calls, 10), strconv.FormatUint(l.OK, 10), trimmed(l.Success), hits, trimmed(l.Quick), name}
			for _, stat := range statNames {
				row = append(row, trimmed(f.stat(stat)))
			}
			_ = c.Write(row)
		}
	}
	c.Flush()
	return c.Error()
}
