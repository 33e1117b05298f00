package command

import (
	"cmp"
	"slices"
	"strings"
	"time"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// view is what the live view shows.
type view int

const (
	viewOverview view = iota
	viewPools
	viewPhases
	viewSessions
	views // how many there are
)

// sessionOrder is one way to sort the sessions, the highest first.
type sessionOrder struct {
	name  string
	value func(sessionRow) float64
}

var sessionOrders = []sessionOrder{
	{"traffic", sessionRow.traffic},
	{"age", func(r sessionRow) float64 { return r.GetAge().AsDuration().Seconds() }},
	{"quiet", func(r sessionRow) float64 { return r.GetQuiet().AsDuration().Seconds() }},
	{"first audio", func(r sessionRow) float64 { return r.GetResponses().GetFirstAudio().GetLast().AsDuration().Seconds() }},
	{"turns", func(r sessionRow) float64 { return float64(r.GetResponses().GetStarted()) }},
	{"held", func(r sessionRow) float64 { return float64(r.GetHeldBytes()) }},
	{"added", func(r sessionRow) float64 { return sessionAdded(r.Session).Seconds() }},
}

// sessionAdded is the longest that rtd held something up, either way.
func sessionAdded(s *rtdv1.Session) time.Duration {
	return max(s.GetUp().GetAddedMax().AsDuration(), s.GetDown().GetAddedMax().AsDuration())
}

// frame is everything a look at the daemon brought. It is not changed any more.
type frame struct {
	stats    *rtdv1.Stats
	history  history
	sessions []sessionRow
}

// live is the state of the live view. It knows no terminal and no daemon: what is
// told to it goes in, lines come out.
type live struct {
	theme    theme
	interval time.Duration // between two snapshots

	latest, shown frame
	paused        bool

	lost      error // what keeps the daemon from being watched; nil: nothing
	lostSince time.Time
	lostFor   time.Duration

	view       view
	help       bool
	sinceStart bool // latencies since the start, else of the last minute
	order      int  // in sessionOrders
	reverse    bool
	filter     string
	typing     bool // the filter
	scroll     int  // rows that are above the first one shown
	page       int  // rows that were shown last
}

// snapshot takes in what the daemon measured. It is back if it was lost.
func (l *live) snapshot(s *rtdv1.Stats) {
	l.lost = nil
	l.latest.stats = s
	l.latest.history = l.latest.history.remember(newSample(s))
	l.show()
}

// list takes in the open sessions.
func (l *live) list(sessions []*rtdv1.Session) {
	l.latest.sessions = sessionRows(l.latest.sessions, sessions)
	l.show()
}

func (l *live) show() {
	if !l.paused {
		l.shown = l.latest
	}
}

// lose takes in that the daemon cannot be watched, each time that was found.
func (l *live) lose(err error, now time.Time) {
	if l.lost == nil {
		l.lostSince = now
	}
	l.lost, l.lostFor = err, now.Sub(l.lostSince)
}

// press acts on a key, by its name, and on what it types; quit says that it ends the view.
func (l *live) press(key, text string) (quit bool) {
	switch {
	case key == "ctrl+c":
		return true
	case l.typing:
		l.typed(key, text)
		return false
	case l.help:
		l.pressHelp(key)
		return false
	}
	switch key {
	case "q":
		return true
	case "?", "h":
		l.help, l.scroll = true, 0
	case "p", "space":
		l.paused = !l.paused
		l.show()
	case "w":
		l.sinceStart = !l.sinceStart
	case "tab", "right":
		l.view, l.scroll = (l.view+1)%views, 0
	case "shift+tab", "left":
		l.view, l.scroll = (l.view+views-1)%views, 0
	case "1", "2", "3", "4":
		l.view, l.scroll = view(key[0]-'1'), 0
	case "/":
		l.typing = true
	case "esc":
		l.filter, l.scroll = "", 0
	case "s":
		l.order, l.scroll = (l.order+1)%len(sessionOrders), 0
	case "S":
		l.order, l.scroll = (l.order+len(sessionOrders)-1)%len(sessionOrders), 0
	case "r":
		l.reverse, l.scroll = !l.reverse, 0
	default:
		l.move(key)
	}
	return false
}

// pressHelp scrolls the help or ends it.
func (l *live) pressHelp(key string) {
	if !l.move(key) {
		l.help, l.scroll = false, 0
	}
}

// move scrolls, if that is what the key is for.
func (l *live) move(key string) bool {
	switch key {
	case "up", "k":
		l.scroll--
	case "down", "j":
		l.scroll++
	case "pgup":
		l.scroll -= l.page
	case "pgdown":
		l.scroll += l.page
	case "home", "g":
		l.scroll = 0
	case "end", "G":
		l.scroll = 1 << 30 // brought back as soon as it is known how much there is
	default:
		return false
	}
	l.scroll = max(0, l.scroll)
	return true
}

// typed edits the filter, which is in force while it is typed.
func (l *live) typed(key, text string) {
	l.scroll = 0
	switch key {
	case "enter":
		l.typing = false
	case "esc":
		l.typing, l.filter = false, ""
	case "backspace":
		if runes := []rune(l.filter); len(runes) > 0 {
			l.filter = string(runes[:len(runes)-1])
		}
	default:
		l.paste(text)
	}
}

// paste adds to the filter, if it is being typed.
func (l *live) paste(text string) {
	if l.typing {
		l.filter += printable(strings.ReplaceAll(text, "\n", " "))
	}
}

// selected is the sessions that the filter lets through, in order.
func (l *live) selected() []sessionRow {
	rows := slices.Clone(l.shown.sessions)
	if words := strings.Fields(strings.ToLower(l.filter)); len(words) > 0 {
		rows = slices.DeleteFunc(rows, func(r sessionRow) bool { return !r.has(words) })
	}
	value := sessionOrders[l.order].value
	slices.SortFunc(rows, func(a, b sessionRow) int {
		order := cmp.Compare(value(b), value(a))
		if l.reverse {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.GetId(), b.GetId()))
	})
	return rows
}

// has reports whether every word is somewhere in what the session is called.
func (r sessionRow) has(words []string) bool {
	text := strings.ToLower(strings.Join([]string{
		r.GetId(), sessionState(r.Session), r.GetModel(), r.GetTarget(), poolResult(r.GetResult()), r.GetClientAddress(), r.GetKeyName(), r.GetRequestId(), r.GetUpstreamSessionId(),
	}, " "))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

func sessionState(s *rtdv1.Session) string      { return word(s.GetState().String(), "SESSION_STATE_") }
func poolResult(result rtdv1.PoolResult) string { return word(result.String(), "POOL_RESULT_") }
