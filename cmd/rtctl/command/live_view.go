package command

import (
	"fmt"
	"time"
)

// The least there must be of a terminal.
const (
	leastWidth  = 50
	leastHeight = 10
)

// lines is the whole screen: height lines, none wider than width.
func (l *live) lines(width, height int) []string {
	if width < leastWidth || height < leastHeight {
		return fill([]string{clip(fmt.Sprintf("too small: %dx%d or more", leastWidth, leastHeight), width)}, height)
	}
	head, foot := l.header(width), l.footer(width)
	room := height - len(head) - 1
	var body []string
	switch {
	case l.help:
		body = l.helpLines(width, room)
	case l.view == viewPools:
		body = l.scrolled(l.pools(), width, room, noPools)
	case l.view == viewPhases:
		body = l.scrolled(l.phases(), width, room, noPhases)
	case l.view == viewSessions:
		body = l.topSessions(l.selected(), width, room)
	default:
		body = l.overview(width, room)
	}
	return append(append(head, fill(body, room)...), foot)
}

// fill makes lines height long.
func fill(lines []string, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines[:max(height, 0)]
}

// header is a line on the daemon, one on its sessions, and one on what is wrong.
func (l *live) header(width int) []string {
	s := l.shown.stats
	var idle, size uint32
	for _, p := range s.GetPools() {
		idle, size = idle+p.GetIdle(), size+p.GetSize()
	}
	left := fmt.Sprintf("rtd  up %s  %s sessions  %s/%s warm", span(s.GetUptime()), number(s.GetSessions().GetOpen()), number(idle), number(size))
	right := fmt.Sprintf("%s every %s", s.GetTime().AsTime().Local().Format(time.TimeOnly), l.interval)
	if l.paused {
		right = "PAUSED at " + s.GetTime().AsTime().Local().Format(time.TimeOnly)
	}
	style := l.theme.heading
	if l.paused {
		style = l.theme.paused
	}
	lines := []string{style.Render(ends(left, right, width)), l.theme.faint.Render(clip(totals(s), width))}
	if l.lost != nil {
		lines = append(lines, l.theme.alert.Render(clip(l.banner(), width)))
	}
	return lines
}

// banner says that the figures are old before it says why: the reason may be long.
func (l *live) banner() string {
	return printable(fmt.Sprintf("DAEMON GONE for %s, trying again: %s", humanDuration(l.lostFor.Truncate(time.Second)), l.lost))
}

func (l *live) footer(width int) string {
	if l.typing {
		return clip("sessions with: "+l.filter+"_  (enter keeps it, esc clears it)", width)
	}
	order := sessionOrders[l.order].name
	if l.reverse {
		order += " up"
	}
	if l.help {
		return l.theme.faint.Render("arrows scroll  any other key goes back")
	}
	keys := []string{"q quit", "? help", "tab view", "p pause", "s sort: " + order}
	if l.filter == "" {
		keys = append(keys, "/ filter")
	} else {
		keys = append(keys, "/ filter: "+l.filter)
	}
	keys = append(keys, "w window", "r reverse")
	text := keys[0]
	for _, key := range keys[1:] {
		if len(text)+len(gap)+len(key) > width {
			break
		}
		text += gap + key
	}
	return l.theme.faint.Render(clip(text, width))
}

// overview has a part of everything: what does not fit has a view of its own. The
// sessions take what the others leave, and the others leave them a third.
func (l *live) overview(width, room int) []string {
	pools, phases, sessions := l.pools(), l.phases(), l.selected()
	air := 0
	if room >= 30 {
		air = 1 // an empty line before a section
	}
	room -= 3 * air
	pair := 7
	switch {
	case room < 12:
		pair = 3
	case room < 18:
		pair = 4
	}
	poolLines := min(len(pools.rows), 3) + 1
	room -= pair + poolLines
	phaseLines := min(len(phases.rows)+1, room-min(len(sessions)+1, max(3, room/3)))
	phases.leaveOut(phaseLines)

	lines := l.section(pools, width, poolLines, noPools)
	for _, part := range [][]string{
		l.section(phases, width, phaseLines, noPhases),
		l.ratesAndMemory(width, pair),
		l.topSessions(sessions, width, room-max(1, phaseLines)),
	} {
		lines = append(fill(lines, len(lines)+air), part...)
	}
	return lines
}

const (
	noPools  = "no pools yet: the first client of a model makes one"
	noPhases = "no latencies yet"
)

func (l *live) noSessions() string {
	if l.filter != "" && len(l.shown.sessions) > 0 {
		return "no session matches the filter"
	}
	return "no sessions"
}

// section is a grid in at most height lines.
func (l *live) section(g *grid, width, height int, empty string) []string {
	if len(g.rows) == 0 {
		return []string{l.theme.faint.Render(clip(empty, width))}
	}
	return g.lines(l.theme, width, height)
}

// scrolled is a grid whose rows can be moved.
func (l *live) scrolled(g *grid, width, room int, empty string) []string {
	from, to := l.window(len(g.rows), room)
	rest := len(g.rows) - to
	g.rows = g.rows[from:to]
	g.leftOut(from, rest)
	return l.section(g, width, room, empty)
}

// topSessions is the sessions, of which only those that are seen are made out: there may be thousands.
func (l *live) topSessions(rows []sessionRow, width, room int) []string {
	from, to := l.window(len(rows), room)
	g := l.sessions(rows[from:to])
	g.leftOut(from, len(rows)-to)
	return l.section(g, width, room, l.noSessions())
}

// window says which of n rows are seen in room lines with a heading, whatever became of the rows and the screen since
// they were moved.
func (l *live) window(n, room int) (from, to int) {
	l.page = max(1, room-1)
	l.scroll = min(l.scroll, max(0, n-l.page))
	return l.scroll, min(n, l.scroll+l.page)
}

func (l *live) ratesAndMemory(width, height int) []string {
	right := 24 // without the peaks
	if width >= 100 {
		right = 34
	}
	return beside(l.rates().lines(l.theme, width-right-3, height), l.memory().lines(l.theme, right, height), width-right, height)
}
