package command

import (
	"fmt"
	"math"
	"strings"

	"charm.land/lipgloss/v2"
)

// theme is how the live view looks. The zero value adds nothing to the text.
type theme struct {
	heading, alert, faint, spark lipgloss.Style
}

// newTheme uses the sixteen colours that a terminal's own palette decides.
func newTheme() theme {
	style := lipgloss.NewStyle()
	return theme{
		heading: style.Bold(true).Foreground(lipgloss.Cyan),
		alert:   style.Bold(true).Foreground(lipgloss.Red),
		faint:   style.Faint(true),
		spark:   style.Foreground(lipgloss.Green),
	}
}

// column is one of a grid. rank says when it leaves a grid that is too wide: the
// highest first, 0 never.
type column struct {
	name  string
	right bool
	min   int // columns it takes even when its cells are shorter, so that it does not jump
	rank  int
}

// plain adds nothing.
var plain lipgloss.Style

type gridRow struct {
	cells []string
	style lipgloss.Style
	spark []float64 // drawn behind the cells
}

// grid lays out rows in exactly the width there is: it leaves columns out rather than
// cutting a number, and cuts only the first one, a name.
type grid struct {
	columns []column
	rows    []gridRow
	first   int    // the least that is left of the first column
	sparks  string // heading of the sparklines; "": there are none
}

const (
	gap      = "  "
	minSpark = 6
	maxSpark = 60
)

func (g *grid) add(style lipgloss.Style, cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	g.rows = append(g.rows, gridRow{cells: cells, style: style})
}

func (g *grid) addSpark(style lipgloss.Style, spark []float64, cells ...string) {
	g.add(style, cells...)
	g.rows[len(g.rows)-1].spark = spark
}

// fit chooses the columns that are shown and how wide each is; rest is what remains.
func (g *grid) fit(width int) (shown, widths []int, rest int) {
	widths = make([]int, len(g.columns))
	for i, c := range g.columns {
		shown = append(shown, i)
		widths[i] = max(c.min, len(c.name))
		for _, row := range g.rows {
			widths[i] = max(widths[i], lipgloss.Width(row.cells[i]))
		}
	}
	need := 0
	if g.sparks != "" {
		need = minSpark + len(gap)
	}
	full := widths[0]
	widths[0] = min(full, g.first)
	for {
		rest = width + len(gap)
		worst := -1
		for at, i := range shown {
			rest -= widths[i] + len(gap)
			if rank := g.columns[i].rank; rank > 0 && (worst < 0 || rank > g.columns[shown[worst]].rank) {
				worst = at
			}
		}
		if rest >= need || worst < 0 {
			break
		}
		shown = append(shown[:worst:worst], shown[worst+1:]...)
	}
	if grow := min(full-widths[0], rest-need); grow > 0 {
		widths[0] += grow
		rest -= grow
	}
	return shown, widths, rest
}

// lines are the heading and the rows, none wider than width and no more than height.
// The heading says how many rows that leaves out.
func (g *grid) lines(t theme, width, height int) []string {
	shown, widths, rest := g.fit(width)
	spark := 0
	if g.sparks != "" && rest-len(gap) >= minSpark {
		spark = min(rest-len(gap), maxSpark)
	}
	lines := []string{t.heading.Render(g.title(shown, widths, spark, width, len(g.rows)+1-height))}
	for _, row := range g.rows[:max(0, min(len(g.rows), height-1))] {
		line := row.style.Render(clip(g.join(row.cells, shown, widths), width))
		if spark > 0 {
			line += gap + t.spark.Render(sparkline(row.spark, spark))
		}
		lines = append(lines, line)
	}
	return lines
}

func (g *grid) title(shown, widths []int, spark, width, hidden int) string {
	names := make([]string, len(g.columns))
	for i, c := range g.columns {
		names[i] = c.name
	}
	title := g.join(names, shown, widths)
	if spark > 0 {
		title += gap + clip(g.sparks, spark)
	}
	if hidden <= 0 {
		return clip(title, width)
	}
	return ends(strings.TrimRight(title, " "), fmt.Sprintf("+%d", hidden), width)
}

func (g *grid) join(cells []string, shown, widths []int) string {
	parts := make([]string, len(shown))
	for at, i := range shown {
		parts[at] = pad(clip(cells[i], widths[i]), widths[i], g.columns[i].right)
	}
	return strings.Join(parts, gap)
}

func pad(text string, width int, right bool) string {
	blank := strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
	if right {
		return blank + text
	}
	return text + blank
}

// clip cuts plain text to width and shows that it did.
func clip(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	used, end := 0, 0
	for i, r := range text {
		if used += lipgloss.Width(string(r)); used > width-1 {
			break
		}
		end = i + len(string(r))
	}
	return text[:end] + strings.Repeat("…", min(width, 1))
}

// sparkline draws values, oldest first, over width columns: a column is the highest
// value that falls into it, and NaN is nothing. Its floor is zero.
func sparkline(values []float64, width int) string {
	columns := make([]float64, width)
	for i := range columns {
		columns[i] = math.NaN()
	}
	top := 0.0
	for i, v := range values {
		at := i * width / len(values)
		if !math.IsNaN(v) && !(columns[at] >= v) {
			columns[at] = v
		}
		top = max(top, zeroNaN(v))
	}
	const marks = "▁▂▃▄▅▆▇█"
	ramp := []rune(marks)
	var b strings.Builder
	for _, v := range columns {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top == 0:
			b.WriteRune(ramp[0])
		default:
			b.WriteRune(ramp[min(int(v/top*float64(len(ramp))), len(ramp)-1)])
		}
	}
	return b.String()
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// ends puts two texts at the ends of a line; the left one gives way.
func ends(left, right string, width int) string {
	room := max(0, width-lipgloss.Width(right))
	return pad(clip(left, max(0, room-len(gap))), room, false) + right
}

// beside puts two columns of lines next to each other, the second one from a column on.
func beside(left, right []string, from, height int) []string {
	var lines []string
	for i := range min(height, max(len(left), len(right))) {
		line := ""
		if i < len(left) {
			line = left[i]
		}
		if i < len(right) {
			line = pad(line, from, false) + right[i]
		}
		lines = append(lines, line)
	}
	return lines
}
