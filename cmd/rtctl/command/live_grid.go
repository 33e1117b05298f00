package command

import (
	"fmt"
	"math"
	"strings"

	"charm.land/lipgloss/v2"
)

// theme is how the live view looks. The zero value adds nothing to the text.
type theme struct {
	heading, paused, alert, faint, spark lipgloss.Style
}

// newTheme uses the sixteen colours that a terminal's own palette decides.
func newTheme() theme {
	style := lipgloss.NewStyle()
	return theme{
		heading: style.Bold(true).Foreground(lipgloss.Cyan),
		paused:  style.Bold(true).Reverse(true), // seen without colours, too
		alert:   style.Bold(true).Reverse(true).Foreground(lipgloss.Red),
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
	spark func(width int) []float64 // drawn behind the cells
	idle  bool                      // has nothing to say at present
}

// grid lays out rows in exactly the width there is: it leaves columns out rather than
// cutting a number, and cuts only the first one, a name.
type grid struct {
	columns []column
	rows    []gridRow
	first   int    // what the first column has before others are shown
	sparks  string // heading of the sparklines; "": there are none
	hidden  int    // rows that were left out
}

const (
	gap      = "  "
	minName  = 6 // what is left of the first column at the worst
	minSpark = 6
	maxSpark = 60
)

func (g *grid) add(style lipgloss.Style, cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	g.rows = append(g.rows, gridRow{cells: cells, style: style})
}

func (g *grid) addSpark(style lipgloss.Style, spark func(width int) []float64, cells ...string) {
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
	grow := min(full-widths[0], max(rest-need, min(rest, 0))) // or shrink
	grow = max(grow, minName-widths[0])
	widths[0] += grow
	return shown, widths, rest - grow
}

// lines are the heading and the rows, none wider than width and no more than height.
// The heading says how many rows are left out.
func (g *grid) lines(t theme, width, height int) []string {
	shown, widths, rest := g.fit(width)
	spark := 0
	if g.sparks != "" && rest-len(gap) >= minSpark {
		spark = min(rest-len(gap), maxSpark)
	}
	rows := g.rows[:max(0, min(len(g.rows), height-1))]
	lines := []string{t.heading.Render(clip(g.title(shown, widths, spark, g.hidden+len(g.rows)-len(rows)), width))}
	for _, row := range rows {
		line := row.style.Render(clip(g.join(row.cells, shown, widths), width))
		if spark > 0 {
			line += gap + t.spark.Render(sparkline(row.spark(spark)))
		}
		lines = append(lines, line)
	}
	return lines
}

func (g *grid) title(shown, widths []int, spark, hidden int) string {
	names := make([]string, len(g.columns))
	for i, c := range g.columns {
		names[i] = c.name
	}
	if hidden > 0 {
		names[0] += fmt.Sprintf(" +%d", hidden)
	}
	title := g.join(names, shown, widths)
	if spark > 0 {
		title += gap + clip(g.sparks, spark)
	}
	return title
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

// leaveOut takes idle rows out, the last ones first, until the grid has height lines.
func (g *grid) leaveOut(height int) {
	for i := len(g.rows) - 1; i >= 0 && len(g.rows)+1 > height; i-- {
		if g.rows[i].idle {
			g.rows = append(g.rows[:i:i], g.rows[i+1:]...)
			g.hidden++
		}
	}
}

// leftOut says in the heading that there are rows before and behind those of the grid.
func (g *grid) leftOut(before, behind int) {
	if before > 0 {
		g.columns[0].name += fmt.Sprintf(" -%d", before)
	}
	g.hidden += behind
}

// sparkline draws values, oldest first, a column each, from zero to the highest of
// them. NaN is nothing.
func sparkline(values []float64) string {
	top := 0.0
	for _, v := range values {
		top = max(top, zeroNaN(v))
	}
	ramp := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case v == 0:
			b.WriteRune(ramp[0])
		default:
			b.WriteRune(ramp[int(math.Ceil(v/top*float64(len(ramp))))-1])
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
