package stats

import (
	"errors"
	"testing"
)

func TestMemoryPerSession(t *testing.T) {
	f := func(rss, baseline uint64, sessions int, want float64) {
		t.Helper()
		got := Memory{RSS: rss, Heap: 7}.WithSessions(baseline, sessions)
		if got.PerSession != want || got.Baseline != baseline || got.Sessions != sessions || got.Heap != 7 {
			t.Errorf("%d over %d for %d sessions = %+v, want %v each", rss, baseline, sessions, got, want)
		}
	}
	f(3000, 1000, 4, 500)
	f(3000, 1000, 0, 0)
	f(900, 1000, 4, 0)
}

func TestParseStatm(t *testing.T) {
	f := func(text string, want uint64, ok bool) {
		t.Helper()
		got, err := ParseStatm([]byte(text), 4096)
		if got != want || (err == nil) != ok || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	f("1234 25 12 1 0 300 0\n", 25*4096, true)
	f("1234", 0, false)
	f("", 0, false)
	f("1 x", 0, false)
}

func TestParseStatus(t *testing.T) {
	f := func(text string, want Status, ok bool) {
		t.Helper()
		got, err := ParseStatus([]byte(text))
		if got != want || (err == nil) != ok || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%q = %+v, %v; want %+v", text, got, err, want)
		}
	}
	f("Name:\trtd\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t 512 kB\nVmSwap:\t 4 kB\nThreads:\t9\n",
		Status{RSS: 1 << 20, PeakRSS: 2 << 20, Anon: 512 << 10, Swap: 4 << 10, Threads: 9}, true)
	f("VmRSS:\t1 kB", Status{RSS: 1 << 10}, true)
	f("Name:\tkthreadd\n", Status{}, false)
	f("VmRSS:\t1 MB\n", Status{}, false)
	f("VmRSS:\t\n", Status{}, false)
	f("VmRSS:\tmany kB\n", Status{}, false)
}
