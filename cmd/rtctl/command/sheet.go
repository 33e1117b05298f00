package command

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// sheet is what a command shows people: tables, fields and lines of text, one below the other.
type sheet []fmt.Stringer

// text is a part of a sheet that has no columns. It ends with its line.
type text string

func (t text) String() string { return string(t) }

func textf(format string, args ...any) text { return text(fmt.Sprintf(format, args...)) }

// String puts an empty line between two parts.
func (s sheet) String() string {
	parts := make([]string, len(s))
	for i, part := range s {
		parts[i] = part.String()
	}
	return strings.Join(parts, "\n")
}

// fit makes a sheet fit into a terminal as far as it can.
func (s sheet) fit(width int) {
	for _, part := range s {
		switch part := part.(type) {
		case *table:
			part.fit(width)
		case *fields:
			if room := width - part.indent(); room >= minWords {
				part.words = room
			}
		}
	}
}

// fit takes columns that say nothing out of a table that would not fit, and counts them in the first heading.
func (t *table) fit(width int) {
	widths, total := t.widths(), 0
	for _, w := range widths {
		total += w + len("  ")
	}
	dropped := 0
	for i := len(t.heading) - 1; i > 0 && total-len("  ") > width; i-- {
		if !t.right[i] || !t.idle(i) {
			continue
		}
		total -= widths[i] + len("  ")
		t.heading, t.right = slices.Delete(t.heading, i, i+1), slices.Delete(t.right, i, i+1)
		for r := range t.rows {
			t.rows[r] = slices.Delete(t.rows[r], i, i+1)
		}
		dropped++
	}
	if dropped > 0 {
		t.heading[0] += fmt.Sprintf(" +%d", dropped)
	}
	t.fitWords(width)
}

// minWords is the least width of a column of words that is worth keeping as one.
const minWords = 16

// fitWords has the words of the last column continue below themselves where they would not fit into a terminal.
func (t *table) fitWords(width int) {
	last := len(t.heading) - 1
	room := width
	for _, w := range t.widths()[:last] {
		room -= w + len("  ")
	}
	if !t.right[last] && room >= minWords {
		t.words = room
	}
}

// wrap breaks text between words into lines of at most width; a longer word has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines) - 1; n >= 0 && utf8.RuneCountInString(lines[n])+len(" ")+utf8.RuneCountInString(word) <= width {
			lines[n] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// idle reports whether a column has nothing but zeros.
func (t *table) idle(column int) bool {
	return !slices.ContainsFunc(t.rows, func(row []string) bool { return !slices.Contains([]string{none, "0", "0 B"}, row[column]) })
}

// mergeSheets is the sheet of several daemons: what stands at one place in each becomes one table, with a column in front that
// says whose a row is.
func mergeSheets(names []string, sheets []sheet) sheet {
	var merged sheet
	for place := 0; ; place++ {
		var tables []*table
		more := false
		for i, s := range sheets {
			if place >= len(s) {
				continue
			}
			more = true
			tables = addRows(tables, names[i], s[place])
		}
		if !more {
			return merged
		}
		for _, t := range tables {
			merged = append(merged, t)
		}
	}
}

// addRows adds the rows of a part to the table that has its columns; to a new one where none has.
func addRows(tables []*table, name string, part fmt.Stringer) []*table {
	rows := asTable(part)
	var into *table
	for _, t := range tables {
		if strings.Join(t.heading[1:], "\t") == strings.Join(rows.heading, "\t") {
			into = t
		}
	}
	if into == nil {
		into = &table{heading: append([]string{"DAEMON"}, rows.heading...), right: append([]bool{false}, rows.right...)}
		tables = append(tables, into)
	}
	for _, row := range rows.rows {
		into.add(append([]string{name}, row...)...)
	}
	return tables
}

func asTable(part fmt.Stringer) *table {
	switch part := part.(type) {
	case *table:
		return part
	case *fields:
		t := newTable("FIELD", "VALUE")
		for i, name := range part.names {
			t.add(name, part.values[i])
		}
		return t
	}
	t := newTable("RESULT")
	for line := range strings.Lines(part.String()) {
		t.add(strings.TrimSuffix(line, "\n"))
	}
	return t
}
