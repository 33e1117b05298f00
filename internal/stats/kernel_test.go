package stats

import (
	"errors"
	"math"
	"testing"
)

func TestParseRollup(t *testing.T) {
	f := func(text string, want uint64, ok bool) {
		t.Helper()
		got, err := ParseRollup([]byte(text))
		if got != want || (err == nil) != ok || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	f("5588-7ffc ---p 00000000 00:00 0 [rollup]\nRss:  1836 kB\nPss:   192 kB\nPss_Dirty: 112 kB\n", 192<<10, true)
	f("Rss: 1 kB\n", 0, false)
	f("Pss: 1 MB\n", 0, false)
	f("", 0, false)
}

func TestParseSockstat(t *testing.T) {
	f := func(text string, want uint64, ok bool) {
		t.Helper()
		got, err := ParseSockstat([]byte(text), 4096)
		if got != want || (err == nil) != ok || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	f("sockets: used 91\nTCP: inuse 38 orphan 0 tw 2875 alloc 38 mem 127\nUDP: inuse 0 mem 5\n", 127*4096, true)
	f("UDP: inuse 0 mem 5\n", 0, false)
	f("TCP: inuse 38 mem\n", 0, false)
	f("TCP: mem many\n", 0, false)
	f("", 0, false)
}

func TestSocketMemoryCountsDataAndNotBounds(t *testing.T) {
	m := SocketMemory{100, 131072, 7, 16384, 4096, 2000, 30, 400, 9}
	if got := m.Bytes(); got != 100+4096+2000+30+400 {
		t.Errorf("%d bytes", got)
	}
	if got := (SocketMemory{4: math.MaxUint32}).Bytes(); got != 0 {
		t.Errorf("a negative amount is %d bytes", got)
	}
}
