package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// emit writes a result in the chosen form: doc as indented JSON or as YAML, or what people are shown. Of several daemons it is
// kept until all have answered.
func (a *app) emit(doc any, shown ...fmt.Stringer) error {
	if a.part != nil {
		a.part.document, a.part.sheet = doc, shown
		return nil
	}
	switch a.format {
	case formatJSON:
		return writeJSON(a.stdout, doc)
	case formatYAML:
		return writeYAML(a.stdout, "", doc)
	}
	if size := terminalSize(a.stdout); size != nil {
		width, _ := size()
		sheet(shown).fit(width)
	}
	_, err := io.WriteString(a.stdout, printable(sheet(shown).String()))
	return err
}

// writeJSON writes doc as a document for scripts and, indented, for people.
func writeJSON(w io.Writer, doc any) error {
	encoder := newEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(doc)
}

// printable keeps what an upstream worded, such as an error, from steering a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// emitLine writes doc as one of many: a line of JSON, or a document of a YAML stream.
func (a *app) emitLine(doc any) error {
	if a.part != nil {
		row, err := withDaemon(a.part.name, doc)
		if err != nil {
			return err
		}
		doc = row
	}
	if a.format == formatYAML {
		return writeYAML(a.stdout, "---\n", doc)
	}
	return newEncoder(a.stdout).Encode(doc)
}

func newEncoder(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // nobody embeds this in a page; & in a URL should stay readable
	return encoder
}

// table lays out rows under a heading. Columns are as wide as their widest cell; the
// ones marked right hold numbers and are aligned to the right.
type table struct {
	heading []string
	right   []bool
	rows    [][]string
	words   int // widest that the last column may be; 0: as wide as its cells
}

// newTable takes headings; one that begins with '>' is aligned to the right.
func newTable(headings ...string) *table {
	t := &table{}
	for _, heading := range headings {
		name, right := strings.CutPrefix(heading, ">")
		t.heading = append(t.heading, name)
		t.right = append(t.right, right)
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// widths are those of the columns.
func (t *table) widths() []int {
	widths := make([]int, len(t.heading))
	for _, line := range append([][]string{t.heading}, t.rows...) {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// lines are the heading and the rows; one whose last cell does not fit goes on in lines that have nothing else.
func (t *table) lines() [][]string {
	lines := append([][]string{t.heading}, t.rows...)
	if t.words == 0 {
		return lines
	}
	var all [][]string
	for _, line := range lines {
		last := len(line) - 1
		if utf8.RuneCountInString(line[last]) <= t.words {
			all = append(all, line)
			continue
		}
		for i, part := range wrap(line[last], t.words) {
			next := make([]string, len(line))
			if i == 0 {
				copy(next, line)
			}
			next[last] = part
			all = append(all, next)
		}
	}
	return all
}

func (t *table) String() string {
	widths := t.widths()
	var b strings.Builder
	for _, line := range t.lines() {
		var text strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				text.WriteString(pad + cell)
			} else {
				text.WriteString(cell + pad)
			}
			text.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return b.String()
}

// fields lays out name and value pairs, one a line.
type fields struct {
	names, values []string
	words         int // widest that a value may be; 0: as wide as it is
}

func (f *fields) add(name, value string, args ...any) {
	f.names = append(f.names, name)
	f.values = append(f.values, fmt.Sprintf(value, args...))
}

// indent is where the values begin.
func (f *fields) indent() int {
	width := 0
	for _, name := range f.names {
		width = max(width, utf8.RuneCountInString(name))
	}
	return width + len("  ")
}

func (f *fields) String() string {
	indent := f.indent()
	var b strings.Builder
	for i, name := range f.names {
		value := f.values[i]
		if f.words > 0 && utf8.RuneCountInString(value) > f.words {
			value = strings.Join(wrap(value, f.words), "\n"+strings.Repeat(" ", indent))
		}
		b.WriteString(name + strings.Repeat(" ", indent-utf8.RuneCountInString(name)) + value + "\n")
	}
	return b.String()
}

const none = "-"

// humanDuration gives three digits that mean something: 85.3µs, 118ms, 2.61s, 3m12s.
func humanDuration(d time.Duration) string {
	switch abs := d.Abs(); {
	case abs < time.Microsecond:
		return d.String()
	case abs < time.Millisecond:
		return digits(float64(d)/1e3) + "µs"
	case abs < time.Second:
		return digits(float64(d)/1e6) + "ms"
	case abs < time.Minute:
		return digits(float64(d)/1e9) + "s"
	case abs < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case abs < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// humanBytes counts in powers of 1024.
func humanBytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return digits(n) + " " + units[i]
}

// digits prints three significant ones, and no fewer than a whole number has.
func digits(v float64) string {
	abs := v
	if abs < 0 {
		abs = -abs
	}
	switch {
	case abs < 9.995:
		return fmt.Sprintf("%.2f", v)
	case abs < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// humanCount groups thousands: 1,204,000.
func humanCount(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// share is part of a whole in percent.
func share(part, whole uint64) string {
	if whole == 0 {
		return none
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
