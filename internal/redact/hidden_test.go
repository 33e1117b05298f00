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
	const text = "an opaque-secret-one, an opaque-secret-two, an opaque-secret-onE"
	f(text, text)
	one, again, two := r.Hide("opaque-secret-one"), r.Hide(" opaque-secret-one\n"), r.Hide("opaque-secret-two")
	f("an [redacted], an [redacted], an opaque-secret-onE", text)
	f("[redacted]opaque-secret-tw", "opaque-secret-oneopaque-secret-twoopaque-secret-tw")
	f("[redacted]", "opaque-secret-one")
	f("", "")
	one.Release()
	two.Release()
	f("an [redacted], an opaque-secret-two, an opaque-secret-onE", text)
	again.Release()
	f(text, text)
	if len(r.hidden) != 0 || len(*r.prints.Load()) != 0 {
		t.Errorf("left behind: %v, %v", r.hidden, *r.prints.Load())
	}
}

func TestHiddenSecretsAreFoundInEncodedForms(t *testing.T) {
	const secret = `opaque/w/rd+key==`
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

func TestWhatIsNoKeyIsNotHidden(t *testing.T) {
	r := New()
	for _, secret := range []string{
		"", "abc", "  fifteen-letters  ", strings.Repeat("a", maxHidden+1),
		"session ended normally", `","@message":"session`, "opaque\x00secret-secret", "opaque-sécret-secret",
	} {
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
			secret := fmt.Sprintf("opaque-secret-%0*d", 3+i%40, i)
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

// TestAHiddenSecretChangesNoLog: whoever presents a credential chooses it, and must not choose what a log says.
func TestAHiddenSecretChangesNoLog(t *testing.T) {
	r := New("registered-secret")
	defer r.Hide("session-refused-x").Release()
	var out strings.Builder
	const line = `{"@message":"session-refused-x"}` + "\n"
	fmt.Fprint(r.Writer(&out), line, "registered-secret\n")
	if got := out.String(); got != line+Placeholder+"\n" {
		t.Errorf("the log says %q", got)
	}
}

func FuzzHidden(f *testing.F) {
	f.Add("opaque-secret", "before ", " after")
	f.Add("aaaaaaaaaaaaaaaa", "aaa", "aaaa")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		trimmed := strings.TrimSpace(secret)
		r := New()
		h := r.Hide(secret)
		defer h.Release()
		text := before + trimmed + after
		got := r.String(text)
		switch {
		case h == nil && len(trimmed) >= minHidden && len(trimmed) <= maxHidden && !strings.ContainsFunc(trimmed, notOfAKey):
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
