package redact

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestWriterFindsSecretsHoweverTheyAreSplit(t *testing.T) {
	const in = "a sk-test-SECRET b\nkey opaque c\nAuthorization: Bearer xyz\n"
	const want = "a [redacted] b\nkey [redacted] c\nAuthorization: Bearer [redacted]\n"
	r := New("opaque")
	for size := 1; size <= len(in); size++ {
		var out strings.Builder
		w := r.Writer(&out)
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			if got, err := io.WriteString(w, rest[:n]); got != n || err != nil {
				t.Fatalf("write = %d, %v", got, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Fatalf("in pieces of %d: %q", size, out.String())
		}
	}
}

func TestWriterWritesOnlyWholeLines(t *testing.T) {
	var out lines
	w := New().Writer(&out)
	for _, s := range []string{"one\n", "two\nthree\nfo", "ur", "\n"} {
		io.WriteString(w, s)
	}
	want := []string{"one\n", "two\nthree\n", "four\n"}
	if len(out) != len(want) || out[0] != want[0] || out[1] != want[1] || out[2] != want[2] {
		t.Errorf("writes = %q, want %q", out, want)
	}
}

func TestWriterFlush(t *testing.T) {
	var out strings.Builder
	w := New().Writer(&out)
	io.WriteString(w, "no end sk-test-SECRET")
	if out.Len() != 0 {
		t.Fatalf("an unfinished line was written: %q", out.String())
	}
	for range 2 {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "no end [redacted]" {
		t.Errorf("got %q", out.String())
	}
}

func TestWriterCutsAnEndlessLine(t *testing.T) {
	f := func(name, secret string, pad string, wantEnd string) {
		t.Helper()
		var out strings.Builder
		w := New(secret).Writer(&out)
		for range maxLine / len(pad) {
			io.WriteString(w, pad)
		}
		io.WriteString(w, secret+" rest")
		io.WriteString(w, " of the line\nnext line\n")
		got := out.String()
		if strings.Contains(got, secret) || strings.Contains(got, secret[:len(secret)/2]) {
			t.Errorf("%s: the secret came out: …%q", name, got[max(0, len(got)-100):])
		}
		if !strings.HasSuffix(got, wantEnd) {
			t.Errorf("%s: ends in …%q, want %q", name, got[max(0, len(got)-100):], wantEnd)
		}
	}
	f("with spaces", "opaque value", "0123456 ", "0123456 [line cut]\nnext line\n")
	f("without", "opaque", "01234567", "[line cut]\nnext line\n")
	f("long secret", strings.Repeat("ab", maxLine), "0123456 ", "[line cut]\nnext line\n")
}

func TestWriterReportsTheErrorBehindIt(t *testing.T) {
	want := errors.New("disk full")
	w := New().Writer(failing{want})
	if n, err := io.WriteString(w, "line\n"); n != 5 || !errors.Is(err, want) {
		t.Errorf("write = %d, %v", n, err)
	}
	io.WriteString(w, "unfinished")
	if err := w.Flush(); !errors.Is(err, want) {
		t.Errorf("flush = %v", err)
	}
}

func TestWriterFromManyGoroutines(t *testing.T) {
	var out lines
	w := New("opaque").Writer(&out)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				io.WriteString(w, "an opaque line\n")
			}
		})
	}
	wg.Wait()
	if got := strings.Join(out, ""); got != strings.Repeat("an [redacted] line\n", 800) {
		t.Error("lines were mixed")
	}
}

// lines keeps each write apart.
type lines []string

func (l *lines) Write(p []byte) (int, error) {
	*l = append(*l, string(p))
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return 0, f.err }
