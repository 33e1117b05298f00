package command

import (
	"strings"
	"testing"
	"time"
)

// On a terminal, columns of zeros give way to the others.
func TestTablesFit(t *testing.T) {
	f := func(width int, want string) {
		t.Helper()
		table := newTable("POOL", "STATE", ">IDLE", ">DIALING", ">HITS", ">FAILED")
		table.add("a", "-", "8", "0", "0", "-")
		table.add("b", "-", "8", "0", "12", "-")
		sheet{text("x"), table}.fit(width)
		if got, _, _ := strings.Cut(table.String(), "\n"); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
	f(46, "POOL  STATE  IDLE  DIALING  HITS  FAILED")
	f(40, "POOL  STATE  IDLE  DIALING  HITS  FAILED")
	f(39, "POOL +1  STATE  IDLE  DIALING  HITS")
	f(30, "POOL +2  STATE  IDLE  HITS")
	f(10, "POOL +2  STATE  IDLE  HITS")
}

// The words of a last column stay below their heading.
func TestWordsFit(t *testing.T) {
	f := func(width int, want string) {
		t.Helper()
		table := newTable("MEMORY", ">NOW", "")
		table.add("resident", "25.0 MiB", "20.7 MiB before the first session")
		table.add("cgroup", "1.26 GiB", "no limit")
		sheet{table}.fit(width)
		if got := table.String(); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	whole := "MEMORY         NOW\nresident  25.0 MiB  20.7 MiB before the first session\ncgroup    1.26 GiB  no limit\n"
	f(53, whole)
	f(52, "MEMORY         NOW\nresident  25.0 MiB  20.7 MiB before the first\n                    session\ncgroup    1.26 GiB  no limit\n")
	f(36, "MEMORY         NOW\nresident  25.0 MiB  20.7 MiB before\n                    the first\n                    session\ncgroup    1.26 GiB  no limit\n")
	f(35, whole) // too narrow for columns: the terminal breaks the lines

	value := &fields{}
	value.add("state", "warm")
	value.add("last failure", "refused: nobody is there")
	sheet{value}.fit(34)
	if got, want := value.String(), "state         warm\nlast failure  refused: nobody is\n              there\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHumanDuration(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		if got := humanDuration(d); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
	f(0, "0s")
	f(999, "999ns")
	f(1000, "1.00µs")
	f(85300, "85.3µs")
	f(250*time.Microsecond, "250µs")
	f(9_996*time.Microsecond, "10.0ms")
	f(118*time.Millisecond, "118ms")
	f(2614*time.Millisecond, "2.61s")
	f(59*time.Second, "59.0s")
	f(time.Minute, "1m00s")
	f(3*time.Hour+12*time.Minute+9*time.Second, "3h12m")
	f(47*time.Hour, "47h00m")
	f(49*time.Hour, "2d01h")
	f(-1500*time.Millisecond, "-1.50s")
}

func TestHumanBytes(t *testing.T) {
	f := func(n float64, want string) {
		t.Helper()
		if got := humanBytes(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
	f(0, "0 B")
	f(1023, "1023 B")
	f(1024, "1.00 KiB")
	f(1900, "1.86 KiB")
	f(41<<20, "41.0 MiB")
	f(999<<30, "999 GiB")
	f(5<<50, "5120 TiB")
}

func TestHumanCount(t *testing.T) {
	f := func(n uint64, want string) {
		t.Helper()
		if got := humanCount(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	f(0, "0")
	f(999, "999")
	f(1000, "1,000")
	f(1204000, "1,204,000")
}

func TestShare(t *testing.T) {
	f := func(part, whole uint64, want string) {
		t.Helper()
		if got := share(part, whole); got != want {
			t.Errorf("%d of %d: got %s, want %s", part, whole, got, want)
		}
	}
	f(0, 0, "-")
	f(0, 5, "0.0%")
	f(1204, 1216, "99.0%")
}

func TestPrintable(t *testing.T) {
	if got, want := printable("a\x1b[2J\tb\r\nc\u202e µ"), "a�[2J�b�\nc� µ"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
