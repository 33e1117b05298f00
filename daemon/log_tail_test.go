package daemon

import (
	"fmt"
	"strings"
	"testing"
)

func TestLogTailKeepsTheLastWholeLines(t *testing.T) {
	f := func(max int, want string, writes ...string) {
		t.Helper()
		tail := newLogTail(max)
		for _, w := range writes {
			if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if got := string(tail.Lines()); got != want {
			t.Errorf("%q keeps %q, want %q", writes, got, want)
		}
	}
	f(8, "")
	f(8, "a\nb\n", "a\n", "b\n")
	f(8, "b\nc\nd\n", "a\n", "b\n", "c\n", "d\n")
	f(8, "789\n", "123\n", "456\n", "789\n")
	f(8, "", "123456789\n")
	f(8, "9\n", "12345678\n9\n")
	f(5, "e\nf\n", "a\n", "b\nc\n", "d\n", "e\n", "f\n")
}

func TestLogTailGoesRoundManyTimes(t *testing.T) {
	tail := newLogTail(1 << 10)
	var all strings.Builder
	for i := range 5000 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%37))
		all.WriteString(line)
		_, _ = tail.Write([]byte(line))
	}
	got := string(tail.Lines())
	if !strings.HasSuffix(all.String(), "\n"+got) || len(got) < 1<<10-64 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
