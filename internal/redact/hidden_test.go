package redact

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
)

func TestHiddenSecretsAreFoundUntilTheyAreReleased(t *testing.T) {
	r := New()
	f := func(want, in string) {
		t.Helper()
		if got := r.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	const text = "an opaque-one, an opaque-two, an opaque-onE"
	f(text, text)
	one, again, two := r.Hide("opaque-one"), r.Hide(" opaque-one\n"), r.Hide("opaque-two")
	f("an [redacted], an [redacted], an opaque-onE", text)
	f("[redacted]opaque-tw", "opaque-oneopaque-twoopaque-tw")
	f("[redacted]", "opaque-one")
	f("", "")
	one.Release()
	two.Release()
	f("an [redacted], an opaque-two, an opaque-onE", text)
	again.Release()
	f(text, text)
	if len(r.hidden) != 0 || len(*r.prints.Load()) != 0 {
		t.Errorf("left behind: %v, %v", r.hidden, *r.prints.Load())
	}
}

func TestHiddenSecretsAreFoundInEncodedForms(t *testing.T) {
	const secret = `p"ss w/rd+key`
	r := New()
	defer r.Hide(secret).Release()
	for _, form := range []string{url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%q", secret)} {
		if form == url.QueryEscape(secret) {
			form = strings.ReplaceAll(form, "+", "%20") // a plus is a space only to those who know that it is a query
		}
		if got := r.String("x " + form + " y"); strings.Contains(got, "w%2Frd") || strings.Contains(got, "w/rd") {
			t.Errorf("%s came out as %s", form, got)
		}
	}
}

func TestWhatIsTooShortOrTooLongIsNotHidden(t *testing.T) {
	r := New()
	for _, secret := range []string{"", "abc", "  abc  ", strings.Repeat("a", maxHidden+1)} {
		h := r.Hide(secret)
		if h != nil {
			t.Errorf("%q is hidden", secret)
		}
		h.Release()
	}
}

func TestManyHiddenSecretsOfManyLengths(t *testing.T) {
	r := New()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			secret := fmt.Sprintf("opaque%0*d", i%40, i)
			h := r.Hide(secret)
			if got := r.String("before " + secret + " after"); strings.Contains(got, secret) {
				t.Errorf("%q", got)
			}
			h.Release()
		})
	}
	wg.Wait()
	if n := len(r.hidden); n != 0 {
		t.Errorf("%d left behind", n)
	}
}

func TestACutLineHoldsNoPartOfAHiddenSecret(t *testing.T) {
	secret := "opaque " + strings.Repeat("part ", 20)
	r := New()
	defer r.Hide(secret).Release()
	var out strings.Builder
	w := r.Writer(&out)
	fmt.Fprint(w, strings.Repeat("0123456 ", maxLine/8-3), secret, strings.Repeat("x", maxLine), "\n")
	if strings.Contains(out.String(), "part") {
		t.Errorf("ends in %q", out.String()[max(0, out.Len()-200):])
	}
}

func FuzzHidden(f *testing.F) {
	f.Add("opaque-secret", "before ", " after")
	f.Add("aaaa", "aaa", "aaaa")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		trimmed := strings.TrimSpace(secret)
		r := New()
		h := r.Hide(secret)
		defer h.Release()
		text := before + trimmed + after
		got := r.String(text)
		switch {
		case h == nil && len(trimmed) >= MinSecret && len(trimmed) <= maxHidden:
			t.Fatalf("%q is not hidden", secret)
		case h != nil && !strings.Contains(got, Placeholder):
			t.Fatalf("%q came out as %q", text, got)
		}
	})
}

func BenchmarkStringWithHidden(b *testing.B) {
	r := New()
	for i := range 1000 {
		r.Hide(fmt.Sprintf("opaque-secret-%040d", i))
	}
	line := strings.Repeat(`{"@level":"info","@message":"session ended","session":"rts_a","duration":3000000}`, 3)
	b.ReportAllocs()
	for b.Loop() {
		r.String(line)
	}
}
