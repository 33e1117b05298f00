package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// liveStats is what a busy daemon says in one second of a minute.
func liveStats(second int) *rtdv1.Stats {
	s := newFake().stats
	s.Sessions.Open = 20
	s.Pools = []*rtdv1.Pool{failingPool(), warmPool()}
	s.Time = timestamppb.New(noon.Add(time.Duration(second) * time.Second))
	s.Uptime = durationpb.New(3*time.Hour + time.Duration(second)*time.Second)
	s.LastMinute.Phases = nil
	for _, p := range s.GetPhases() {
		if p.GetResult() == rtdv1.PoolResult_POOL_RESULT_HIT {
			s.LastMinute.Phases = append(s.LastMinute.Phases, p)
		}
	}
	if second == 0 {
		return s // the first look has nothing before it
	}
	wave := time.Duration(second%12 + 1)
	s.LastInterval = &rtdv1.Window{
		Length: durationpb.New(time.Second), Accepted: uint64(second % 4), Responses: &rtdv1.ResponseTotals{Completed: 2},
		Phases: []*rtdv1.PhaseSummary{
			{Phase: rtdv1.Phase_PHASE_READY, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(3, wave*10*time.Microsecond)},
			{Phase: rtdv1.Phase_PHASE_ADDED_UP, Result: rtdv1.PoolResult_POOL_RESULT_HIT, Summary: summary(150, 24*time.Microsecond)},
		},
		Up: &rtdv1.Flow{Frames: 150 * uint64(wave), Bytes: 200 << 10}, Down: &rtdv1.Flow{Frames: 120, Bytes: 800 << 10},
	}
	return s
}

// liveSession is one of many; the higher n, the more it does.
func liveSession(n int, age time.Duration) *rtdv1.Session {
	s := &rtdv1.Session{
		Id: fmt.Sprintf("rts_%020d", n), State: rtdv1.SessionState_SESSION_STATE_OPEN, Target: "openai/gpt-realtime", Result: rtdv1.PoolResult_POOL_RESULT_HIT,
		ClientAddress: fmt.Sprintf("192.0.2.%d:50123", n), Age: durationpb.New(age), Quiet: durationpb.New(time.Duration(50-n) * time.Millisecond), KeyName: "web", Model: "gpt-realtime",
		Responses: &rtdv1.Responses{Started: uint64(n), FirstAudio: &rtdv1.Measure{Count: uint64(n / 2), Last: durationpb.New(time.Duration(300+n) * time.Millisecond)}},
		Up:        &rtdv1.Flow{Bytes: uint64(age.Seconds()) * 1000 * uint64(n), AddedMax: durationpb.New(time.Duration(n) * 10 * time.Microsecond)},
		Down:      &rtdv1.Flow{Bytes: uint64(age.Seconds()) * 4000 * uint64(n)},
	}
	if n == 3 {
		s.State, s.Result, s.HeldBytes, s.ClientAddress = rtdv1.SessionState_SESSION_STATE_CLOSING, rtdv1.PoolResult_POOL_RESULT_BYPASS, 64<<10, "\x1b[2J" // as if it could steer
	}
	return s
}

func liveSessions(second int) []*rtdv1.Session {
	var sessions []*rtdv1.Session
	for n := 1; n <= 20; n++ {
		sessions = append(sessions, liveSession(n, time.Minute+time.Duration(second)*time.Second))
	}
	return sessions
}

// newLive has watched a busy daemon for a minute and a half.
func newLive() *live {
	l := &live{interval: time.Second}
	for second := range 90 {
		l.snapshot(liveStats(second))
		l.list(liveSessions(second))
	}
	return l
}

// picture checks what any screen must be, and returns it.
func picture(t *testing.T, l *live, width, height int) string {
	t.Helper()
	lines := l.lines(width, height)
	if len(lines) != height {
		t.Errorf("%d lines on a terminal of %d", len(lines), height)
	}
	for i, line := range lines {
		if lipgloss.Width(line) > width {
			t.Errorf("line %d is wider than %d: %q", i, width, line)
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestLiveScreens compares every view at three sizes: a usual terminal, a large one
// and a small one.
func TestLiveScreens(t *testing.T) {
	f := func(name string, l *live) {
		t.Helper()
		for _, size := range [][2]int{{80, 24}, {120, 40}, {60, 15}} {
			path := filepath.Join("testdata", fmt.Sprintf("live-%s-%dx%d.txt", name, size[0], size[1]))
			got := picture(t, l, size[0], size[1])
			if strings.Contains(got, "\x1b") {
				t.Errorf("%s: an escape in a plain theme", path)
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs (go test -update rewrites it); got:\n%s", path, got)
			}
		}
	}
	f("overview", newLive())

	pools := newLive()
	pools.press("2", "2")
	f("pools", pools)

	phases := newLive()
	phases.press("3", "3")
	phases.press("w", "w")
	f("phases", phases)

	sessions := newLive()
	sessions.press("4", "4")
	f("sessions", sessions)

	lost := newLive()
	lost.lose(errors.New("no rtd at /run/rtd/rtd.sock: nothing listens on the socket; is it running?"), noon)
	lost.lose(errors.New("no rtd at /run/rtd/rtd.sock: nothing listens on the socket; is it running?"), noon.Add(12300*time.Millisecond))
	f("lost", lost)

	help := newLive()
	help.press("?", "?")
	f("help", help)

	empty := &live{interval: time.Second}
	empty.snapshot(&rtdv1.Stats{})
	empty.list(nil)
	f("empty", empty)
}

// Whatever the terminal is, no line wraps and none is missing.
func TestLiveFitsEverySize(t *testing.T) {
	for _, key := range []string{"1", "2", "3", "4", "?"} {
		l := newLive()
		l.theme = newTheme()
		l.press(key, key)
		l.lose(errors.New("gone 世界"), noon)
		for _, width := range []int{1, 2, 49, 50, 51, 59, 61, 67, 72, 79, 81, 90, 99, 100, 101, 139, 300} {
			for _, height := range []int{1, 2, 9, 10, 11, 13, 17, 20, 21, 22, 32, 33, 34, 35, 60} {
				picture(t, l, width, height)
			}
		}
	}
}

func (l *live) ids() string {
	var ids []string
	for _, r := range l.selected() {
		ids = append(ids, strings.TrimLeft(strings.TrimPrefix(r.GetId(), "rts_"), "0"))
	}
	return strings.Join(ids, " ")
}

func TestLiveSortsAndFilters(t *testing.T) {
	l := newLive()
	f := func(want string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if l.press(key, key) {
				t.Fatalf("%q ends the view", key)
			}
		}
		if got := l.ids(); !strings.HasPrefix(got, want) {
			t.Errorf("after %q: %s, want %s first", keys, got, want)
		}
	}
	f("20 19 18")                          // by traffic
	f("1 2 3", "r")                        // the least first
	f("20 19 18", "r")                     //
	f("1 2 3", "s")                        // by age, which is the same: by id
	f("1 2 3", "s")                        // by quiet
	f("20 19 18", "s", "s")                // by turns
	f("3 1 2", "s")                        // by what is held
	f("20 19 18", "S", "S", "S", "S", "S") // back to traffic
	f("", "/", "b", "y", "p", "a", "s", "x")
	if got := l.ids(); got != "" {
		t.Errorf("the filter bypasx lets through %s", got)
	}
	f("3", "backspace", "s", "enter")
	if got := l.ids(); got != "3" {
		t.Errorf("the filter bypass lets through %s", got)
	}
	f("20 19", "/", "x", "esc")
	f("20", "/")
	l.paste("WEB 192.0.2.12:")
	f("12", "enter")
	f("20 19", "esc")
}

func TestLivePauseHoldsThePicture(t *testing.T) {
	l := newLive()
	before := l.shown
	l.press("p", "p")
	for second := 90; second < 200; second++ {
		l.snapshot(liveStats(second))
		l.list(liveSessions(second)[:2])
	}
	if l.shown.stats != before.stats || len(l.shown.sessions) != 20 || l.shown.history[0].at != before.history[0].at {
		t.Error("the picture went on")
	}
	if screen := picture(t, l, 80, 24); !strings.Contains(screen, "PAUSED at 12:01:29") {
		t.Errorf("it does not say so:\n%s", screen)
	}
	l.press("space", " ")
	if l.shown.stats.GetTime().AsTime() != noon.Add(199*time.Second) || len(l.shown.sessions) != 2 {
		t.Error("the picture does not go on")
	}
}

func TestLiveScrolls(t *testing.T) {
	l := newLive()
	f := func(want string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			l.press(key, "")
		}
		// 14 lines: two above the heading, one below ten sessions.
		if line := strings.Split(picture(t, l, 80, 14), "\n")[3]; !strings.HasPrefix(line, fmt.Sprintf("rts_%020s ", want)) {
			t.Errorf("after %q the first line is %q", keys, line)
		}
	}
	l.press("4", "4")
	f("20")
	f("19", "down")
	f("20", "up", "up")
	f("10", "pgdown")
	f("10", "end", "pgdown", "down")
	f("20", "home")
	f("10", "end")
	l.list(liveSessions(91)[:12]) // there are fewer now
	f("10")
	l.list(liveSessions(92)[:5])
	f("5")
}

func TestLiveIsBackWhenTheDaemonIs(t *testing.T) {
	l := newLive()
	l.lose(errors.New("gone"), noon)
	if screen := picture(t, l, 80, 24); !strings.Contains(screen, "DAEMON GONE") {
		t.Fatalf("no banner:\n%s", screen)
	}
	restarted := liveStats(0)
	restarted.Time, restarted.Uptime = timestamppb.New(noon.Add(100*time.Second)), durationpb.New(time.Second)
	l.snapshot(restarted)
	if screen := picture(t, l, 80, 24); strings.Contains(screen, "GONE") || !strings.Contains(screen, "up 1.00s") {
		t.Fatalf("it is still gone:\n%s", screen)
	}
}

func TestSparkline(t *testing.T) {
	nan := math.NaN()
	f := func(want string, values ...float64) {
		t.Helper()
		if got := sparkline(values); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
	f("▁▄█", 0, 4, 8)
	f("▁▁▂█", 0.01, 1, 1.01, 8)
	f(" █", nan, 8)
	f("  ", nan, nan)
	f("▁▁", 0, 0)
	f("")
}

func TestHistoryIsToScale(t *testing.T) {
	var h history
	at := func(second int, v float64) {
		h = h.remember(sample{at: noon.Add(time.Duration(second) * time.Second), length: time.Second, rates: rates{sessions: v}})
	}
	pick := func(s sample) (float64, bool) { return s.rates.sessions, true }
	f := func(width int, want string) {
		t.Helper()
		if got := fmt.Sprint(h.series(width, pick)); got != want {
			t.Errorf("%d columns: %s, want %s", width, got, want)
		}
	}
	f(2, "[NaN NaN]")
	for second := range 100 {
		at(second, float64(second))
	}
	if len(h) != 60 {
		t.Errorf("%d samples are remembered", len(h))
	}
	f(3, "[59 79 99]")
	at(100, 1) // begins a column: what was there moves on as it is
	f(3, "[79 99 1]")
	f(0, "[]")
	at(140, 140) // after 40 s without the daemon
	f(6, "[99 1 NaN NaN NaN 140]")
	at(-1, 1) // the clock was set back
	f(2, "[NaN 1]")
}

// A look each 15 s fills all the columns since the one before.
func TestHistoryFillsWhatASampleIsAbout(t *testing.T) {
	var h history
	for _, second := range []int{0, 15, 30} {
		h = h.remember(sample{at: noon.Add(time.Duration(second) * time.Second), length: 15 * time.Second, rates: rates{sessions: float64(second)}})
	}
	values := h.series(12, func(s sample) (float64, bool) { return s.rates.sessions, s.at != noon })
	if got := fmt.Sprint(values); got != "[NaN NaN NaN NaN NaN NaN 15 15 15 30 30 30]" {
		t.Error(got)
	}
}

func TestSessionRowsKnowTheirRates(t *testing.T) {
	old := sessionRows(nil, []*rtdv1.Session{liveSession(1, 10*time.Second)})
	if old[0].up != 1000 || old[0].down != 4000 {
		t.Fatalf("a session seen first: %v up, %v down; want the mean of its life", old[0].up, old[0].down)
	}
	if young := sessionRows(nil, []*rtdv1.Session{{Age: durationpb.New(time.Millisecond), Up: &rtdv1.Flow{Bytes: 500}}}); young[0].up != 500 {
		t.Fatalf("500 bytes in a millisecond are %v a second", young[0].up)
	}
	now := liveSession(1, 12*time.Second)
	now.Up.Bytes += 500
	if rows := sessionRows(old, []*rtdv1.Session{now}); rows[0].up != 1250 {
		t.Fatalf("%v up, want 1250", rows[0].up)
	}
	if rows := sessionRows(old, []*rtdv1.Session{proto.CloneOf(old[0].Session)}); !math.IsNaN(rows[0].up) {
		t.Fatalf("%v up within no time", rows[0].up)
	}
}
