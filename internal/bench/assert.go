package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Assertion is a demand on a Report, such as `session.p50<1` or `gateway.ready_hit.p50 <= 0.25*gateway-off.ready.p50`:
// a figure, one of < <= > >= and a number, a figure, or a number times a figure. A figure is [LEG.]PHASE.STAT or
// [LEG.]COUNT; times are milliseconds, shares percent.
type Assertion struct {
	Text string `json:"assertion"`
	Held bool   `json:"held"`
	// Found is what both sides came to, or why they could not be compared.
	Found string `json:"found"`

	left, right figure
	op          string
	factor      float64 // of right, or the whole right side when that names no figure
}

// figure names one number of a report.
type figure struct{ leg, phase, stat string }

var (
	assertion = regexp.MustCompile(`^\s*([a-z0-9_.-]+)\s*(<=|>=|<|>)\s*(?:([0-9.]+)\s*(\*\s*))?([a-z0-9_.-]+)\s*$`)
	statNames = []string{"count", "min", "p50", "p90", "p95", "p99", "p999", "max", "mean"}
	countName = []string{"success", "hits", "under_1ms", "calls", "failures", "unclean_closes"}
)

// ParseAssertion reads an assertion. Its errors say what is wrong with the text.
func ParseAssertion(text string) (Assertion, error) {
	a := Assertion{Text: strings.TrimSpace(text)}
	m := assertion.FindStringSubmatch(text)
	if m == nil {
		return a, fmt.Errorf("%q is no comparison such as session.p50<1 or gateway.hits>=99", text)
	}
	a.op, a.factor = m[2], 1
	var err error
	if a.left, err = parseFigure(m[1]); err != nil {
		return a, err
	}
	if m[4] != "" {
		if a.factor, err = strconv.ParseFloat(m[3], 64); err != nil {
			return a, fmt.Errorf("%q is no number", m[3])
		}
	} else if n, err := strconv.ParseFloat(m[5], 64); err == nil {
		a.factor = n
		return a, nil
	}
	a.right, err = parseFigure(m[5])
	return a, err
}

func parseFigure(text string) (f figure, err error) {
	parts := strings.Split(text, ".")
	if n := len(parts); n > 0 && has(countName, parts[n-1]) {
		f.stat, parts = parts[n-1], parts[:n-1]
	} else if n > 1 && has(statNames, parts[n-1]) {
		if _, ok := phaseNamed(parts[n-2]); !ok {
			return f, fmt.Errorf("%q: there is no phase %q; there are %s", text, parts[n-2], strings.Join(phaseNames[:], ", "))
		}
		f.phase, f.stat, parts = parts[n-2], parts[n-1], parts[:n-2]
	} else {
		return f, fmt.Errorf("%q does not end in a figure: PHASE.STAT with %s, or %s", text, strings.Join(statNames, ", "), strings.Join(countName, ", "))
	}
	if len(parts) > 1 {
		return f, fmt.Errorf("%q: %q is no leg", text, strings.Join(parts, "."))
	}
	if len(parts) == 1 {
		f.leg = parts[0]
	}
	return f, nil
}

func has(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// Check reports whether the assertion names legs that a run with these names has. An assertion without a leg is about the
// gateway, where there is one, or about the only leg.
func (a *Assertion) Check(legs []string) error {
	for _, f := range []figure{a.left, a.right} {
		switch {
		case f.stat == "":
		case f.leg == "" && len(legs) > 1 && !has(legs, LegGateway):
			return fmt.Errorf("%s: say which leg, as in %s.%s", a.Text, legs[0], f.name())
		case f.leg != "" && !has(legs, f.leg):
			return fmt.Errorf("%s: there is no leg %q, only %s", a.Text, f.leg, strings.Join(legs, ", "))
		}
	}
	return nil
}

func (f figure) name() string {
	if f.phase == "" {
		return f.stat
	}
	return f.phase + "." + f.stat
}

// judge fills Held and Found.
func (a *Assertion) judge(r *Report) {
	left, err := a.left.of(r)
	if err != nil {
		a.Found = err.Error()
		return
	}
	right := a.factor
	if a.right.stat != "" {
		value, err := a.right.of(r)
		if err != nil {
			a.Found = err.Error()
			return
		}
		right *= value
	}
	switch a.op {
	case "<":
		a.Held = left < right
	case "<=":
		a.Held = left <= right
	case ">":
		a.Held = left > right
	case ">=":
		a.Held = left >= right
	}
	a.Found = "found " + trimmed(left)
	if a.right.stat != "" {
		a.Found += " and " + trimmed(right)
	}
}

func trimmed(v float64) string { return strconv.FormatFloat(micros(v), 'f', -1, 64) }

// of reads the figure from a report.
func (f figure) of(r *Report) (float64, error) {
	l := r.leg(f.leg)
	if f.leg == "" {
		if l = r.leg(LegGateway); l == nil && len(r.Legs) == 1 {
			l = &r.Legs[0]
		}
	}
	if l == nil {
		return 0, fmt.Errorf("there is no leg %q", f.leg)
	}
	switch f.stat {
	case "success":
		return l.Success, nil
	case "under_1ms":
		return l.Quick, nil
	case "calls":
		return float64(l.Calls), nil
	case "failures":
		return float64(l.Calls - l.OK), nil
	case "unclean_closes":
		return float64(l.Unclean), nil
	case "hits":
		if l.Hits == nil {
			return 0, fmt.Errorf("%s: no answer had the header %s", l.Name, poolHeader)
		}
		return *l.Hits, nil
	}
	figures, ok := l.Phases[f.phase]
	if !ok {
		return 0, fmt.Errorf("%s: %s has no samples", l.Name, f.phase)
	}
	return figures.stat(f.stat), nil
}

func (f *Figures) stat(name string) float64 {
	switch name {
	case "count":
		return float64(f.Count)
	case "min":
		return f.Min
	case "p50":
		return f.P50
	case "p90":
		return f.P90
	case "p95":
		return f.P95
	case "p99":
		return f.P99
	case "p999":
		return f.P999
	case "max":
		return f.Max
	}
	return f.Mean
}
