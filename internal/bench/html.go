package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"color": color, "phases": phaseRows, "median": median, "spread": spreadOf,
}).Parse(pageText))

// color is which of the page's colours a leg has.
func color(leg int) int { return leg % 4 }

// median and spreadOf take a cell of the Table apart.
func median(cell string) string {
	text, _, _ := strings.Cut(cell, plusMinus)
	return text
}

func spreadOf(cell string) string {
	if _, text, ok := strings.Cut(cell, plusMinus); ok {
		return plusMinus + text
	}
	return ""
}

// WriteHTML writes the report as one page that needs nothing else, for light and dark screens.
func (r *Report) WriteHTML(w io.Writer) error {
	err := page.Execute(w, struct {
		Report         *Report
		Load, Headline string
		Table          Table
		Bars           []bar
		Charts         []chart
		Stats          []string
		Notes          []string
	}{
		r, r.load(), r.headline(), r.Table(), r.bars(),
		[]chart{r.chart("Ready", phaseReady), r.chart("Total, to the first audio", phaseTotal)}, statNames, r.Notes(),
	})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// load is what was done, in a sentence.
func (r *Report) load() string {
	c := &r.Config
	text := fmt.Sprintf("%d calls to each endpoint", c.Calls)
	if c.Rate > 0 {
		text += fmt.Sprintf(", %g begun per second", c.Rate)
	} else {
		text += fmt.Sprintf(", %d in flight", c.Concurrency)
	}
	if c.Repeat > 1 {
		text += fmt.Sprintf(", %d times", c.Repeat)
	}
	if rig := c.Rig; rig != nil {
		text += fmt.Sprintf("; a scripted upstream behind TLS: %g ms to its 101, %g ms to session.created, %g ms to the first audio; a pool of %d",
			rig.DialDelay, rig.SessionDelay, rig.ResponseDelay, rig.PoolSize)
	}
	return text + "."
}

// headline is the one sentence that the comparison is made for; "" without a direct leg and a gateway.
func (r *Report) headline() string {
	direct, gateway := r.leg(LegDirect), r.leg(LegGateway)
	if direct == nil || gateway == nil || direct.OK == 0 || gateway.OK == 0 {
		return ""
	}
	name := phaseReady.String()
	return fmt.Sprintf("A call is ready in %s ms through the gateway, in %s ms without it (p50).", number(gateway.Phases[name].P50), number(direct.Phases[name].P50))
}

func phaseRows(l Leg) (rows [][]string) {
	for _, name := range phaseNames {
		f, ok := l.Phases[name]
		if !ok {
			continue
		}
		row := []string{name, fmt.Sprint(f.Count)}
		for _, stat := range statNames[1:] {
			row = append(row, number(f.stat(stat)))
		}
		rows = append(rows, row)
	}
	return rows
}

// bar is a leg's median call as pieces of a line.
type bar struct {
	Name  string
	Parts []part
}

type part struct {
	Class, Color, Label string
	Width               float64 // percent of the longest bar
}

func (r *Report) bars() (bars []bar) {
	pieces := []struct {
		phase phase
		color string
	}{{phaseDial, "dial"}, {phaseSession, "session"}, {phaseFirstAudio, "audio"}}
	longest := 0.0
	for i := range r.Legs {
		b, sum := bar{Name: r.Legs[i].Name}, 0.0
		for _, piece := range pieces {
			p50 := r.Legs[i].Phases[piece.phase.String()].P50
			sum += p50
			b.Parts = append(b.Parts, part{Class: piece.color[:1], Color: piece.color, Label: number(p50), Width: p50})
		}
		longest = max(longest, sum)
		bars = append(bars, b)
	}
	for i := range bars {
		for j := range bars[i].Parts {
			bars[i].Parts[j].Width *= 100 / max(longest, 1e-9)
		}
	}
	return bars
}

// chart is a distribution of each leg over a logarithmic axis, in the coordinates of the page's drawing.
type chart struct {
	Title string
	X, Y  []tick
	Lines []line
}

type tick struct {
	At, Text float64
	Label    string
}

type line struct {
	Name, Points string
	Color        int
}

// The drawing's plane.
const left, right, top, bottom = 44.0, 456.0, 12.0, 232.0

func (r *Report) chart(title string, p phase) chart {
	c := chart{Title: title}
	for _, share := range []int{0, 25, 50, 75, 100} {
		at := bottom - (bottom-top)*float64(share)/100
		c.Y = append(c.Y, tick{at, at + 4, fmt.Sprintf("%d%%", share)})
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range r.Legs {
		for _, v := range r.Legs[i].Phases[p.String()].Curve {
			low, high = min(low, max(v, 0.001)), max(high, v, 0.001)
		}
	}
	if low > high {
		return c // nothing succeeded
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	to = max(to, from+1)
	place := func(v float64) float64 {
		return left + (right-left)*(math.Log10(max(v, 0.001))-from)/(to-from)
	}
	for decade := from; decade <= to; decade++ {
		c.X = append(c.X, tick{At: place(math.Pow(10, decade)), Label: fmt.Sprintf("%g", math.Pow(10, decade))})
	}
	for i := range r.Legs {
		var points strings.Builder
		for q, v := range r.Legs[i].Phases[p.String()].Curve {
			fmt.Fprintf(&points, "%.1f,%.1f ", place(v), bottom-(bottom-top)*float64(q)/100)
		}
		if points.Len() > 0 {
			c.Lines = append(c.Lines, line{r.Legs[i].Name, strings.TrimSpace(points.String()), color(i)})
		}
	}
	return c
}
