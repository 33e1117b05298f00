package redact

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

func TestCaseI1CredentialShapes(t *testing.T) {
	r := New()
	f := func(in, want string) {
		t.Helper()
		if got := r.String(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
		if got := string(r.Bytes([]byte(in))); got != want {
			t.Errorf("as bytes: %q\n got %q\nwant %q", in, got, want)
		}
		if got := r.String(want); got != want {
			t.Errorf("redacted again: %q became %q", want, got)
		}
	}
	// API keys and client secrets.
	f("bad key sk-test-SECRET!", "bad key [redacted]!")
	f("sk-test-a,ek_test_b", "[redacted],[redacted]")
	f("Incorrect API key provided: sk-test-****wxyz.", "Incorrect API key provided: [redacted].")
	f("token ek_rtd_0123 and ek_0123456789", "token [redacted] and [redacted]")
	f(`{"e":"line\nsk-test-SECRET"}`, `{"e":"line\n[redacted]"}`)
	f("xsk-test-0123456789abcdef0", "x[redacted]")
	// Bearer tokens.
	f("Authorization: Bearer abc.def-ghi=", "Authorization: Bearer [redacted]")
	f("Authorization:[bearer  abc]", "Authorization:[bearer  [redacted]]")
	f("BEARER x, next", "BEARER [redacted], next")
	f(`\"Bearer abc\"`, `\"Bearer [redacted]\"`)
	f("?a=Bearer%20abc&b=c", "?a=Bearer%20[redacted]&b=c")
	// Subprotocols.
	f("realtime, openai-insecure-api-key.abc, x", "realtime, openai-insecure-api-key.[redacted], x")
	f("OpenAI-Insecure-API-Key.abc", "OpenAI-Insecure-API-Key.[redacted]")
	// Headers.
	f("api-key: abc", "api-key: [redacted]")
	f("map[X-Goog-Api-Key:[abc] Host:[x]]", "map[X-Goog-Api-Key:[[redacted]] Host:[x]]")
	f(`{"Api-Key":["abc"]}`, `{"Api-Key":["[redacted]"]}`)
	// Query parameters.
	f("GET /v1/realtime?model=m&api_key=abc HTTP/1.1", "GET /v1/realtime?model=m&api_key=[redacted] HTTP/1.1")
	f("key=abc&model=m", "key=[redacted]&model=m")
	f(`query="access_token=abc&model=m"`, `query="access_token=[redacted]&model=m"`)
	f("?client_secret=a.b~c#frag", "?client_secret=[redacted]#frag")
	f(`"/v1?model=m\u0026api-key=abc"`, `"/v1?model=m\u0026api-key=[redacted]"`)
	f("?next=https%3A%2F%2Fx%2F%3Fkey%3Dabc%26a%3Db", "?next=https%3A%2F%2Fx%2F%3Fkey%3D[redacted]%26a%3Db")
	f("?u=%253Fkey%253Dabc", "?u=%253Fkey%253D[redacted]")
}

func TestCaseE1OrdinaryTextStays(t *testing.T) {
	r := New("sk-test-SECRET", "key", "a b")
	f := func(in string) {
		t.Helper()
		if got := r.String(in); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
	f("")
	f("Your session hit the maximum duration of 60 minutes.")
	f("risk-free disk-usage of a task-force, seek_position=4, week_total, locale sk-SK")
	f("a bearer token is missing; Bearer authentication is required")
	f("keys: 3, pool_key=0a1b2c, monkey=1")
	f("100% of %zz and a trailing %4 and a \\ and \\u12")
	f("?model=gpt-realtime&intent=transcription")
}

func TestRegisteredSecretsInEveryForm(t *testing.T) {
	secret := `p&ss/w"or+d\%é`
	r := New(secret, "  sk-test-SECRET\n")
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	f := func(form string) {
		t.Helper()
		if got := r.String("<" + form + ">"); got != "<"+Placeholder+">" {
			t.Errorf("%q became %q", form, got)
		}
	}
	f(secret)
	f(url.QueryEscape(secret))
	f(strings.ToLower(url.QueryEscape(secret)))
	f(url.PathEscape(secret))
	f(url.QueryEscape(url.QueryEscape(secret)))
	f(strings.Trim(string(quoted), `"`))
	f(strings.Trim(strconv.Quote(secret), `"`))
	f(strings.Trim(strconv.QuoteToASCII(secret), `"`))
	f("sk-test-SECRET")
	f("%73%6b-test-SECRET")
}

func TestSecretsThatOverlap(t *testing.T) {
	r := New("abcd", "cdef", "abcdxyz")
	f := func(in, want string) {
		t.Helper()
		if got := r.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	f("1abcdef2", "1[redacted]2")
	f("1abcdxyz2", "1[redacted]2")
	f("1abcdcdef2", "1[redacted]2")
	f("abcd abcd", "[redacted] [redacted]")
}

func TestSecretOfSeveralLines(t *testing.T) {
	r := New("first line\nsecond line\n")
	if got := r.String("x second line y first line"); got != "x [redacted] y [redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestAddWhileInUse(t *testing.T) {
	r := New()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				secret := "secret" + strconv.Itoa(100*i+j)
				r.Add(secret)
				r.Add(secret)
				if got := r.String("<" + secret + ">"); got != "<[redacted]>" {
					t.Errorf("%q right after Add became %q", secret, got)
				}
			}
		})
	}
	wg.Wait()
	if n := len(*r.secrets.Load()); n != 200 {
		t.Errorf("%d secrets are kept, want 200", n)
	}
}

func TestCleanTextIsNotCopied(t *testing.T) {
	r := New("sk-test-SECRET")
	line := "2026-01-02T03:04:05Z [INFO] rtd: session ended: session=1 model=gpt-realtime pool=hit"
	if n := testing.AllocsPerRun(100, func() { r.String(line) }); n != 0 {
		t.Errorf("%v allocations for a line without secrets, want 0", n)
	}
	b := []byte(line)
	if got := r.Bytes(b); &got[0] != &b[0] {
		t.Error("bytes without secrets were copied")
	}
}

// FuzzRedact holds the one promise: what is registered does not come out, whatever surrounds it and however it is
// encoded; and neither does a key of the well-known shape.
func FuzzRedact(f *testing.F) {
	f.Add("sk-test-SECRET", "before ", " after", "other")
	f.Add("p&ss", "%41\\u0026", "%", "x")
	f.Add("abab", "ab", "ab", "baba")
	f.Add(`\\\\`, `\`, `"`, "ssss")
	f.Fuzz(func(t *testing.T, secret, before, after, other string) {
		usable := func(s string) bool {
			return len(s) >= MinSecret && s == strings.TrimSpace(s) && !strings.Contains(s, "\n") &&
				!strings.ContainsAny(s, "[]") && !strings.Contains(Placeholder, s)
		}
		if !usable(secret) {
			t.Skip()
		}
		r := New(secret)
		if usable(other) {
			r.Add(other)
		}
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if out := r.String(before + form + after); strings.Contains(out, secret) || len(form) > len(secret) && strings.Contains(out, form) {
				t.Errorf("%q in %q survives as %q", form, before+form+after, out)
			}
		}
		key := "sk-test-" + strings.Map(func(c rune) rune {
			if c > unicode.MaxASCII || isKeyEnd(byte(c)) {
				return -1
			}
			return c
		}, secret)
		if out := New().String(before + " " + key + after); strings.Contains(out, "sk-test-") && !strings.Contains(before+after, "sk-") {
			t.Errorf("%q survives as %q", key, out)
		}
	})
}

func BenchmarkString(b *testing.B) {
	r := New("sk-test-SECRET", "sk-test-OTHER")
	line := "2026-01-02T03:04:05Z [INFO] rtd: session ended: session=1 model=gpt-realtime pool=hit ready=1.2ms bytes_up=12345 code=1000\n"
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		r.String(line)
	}
}
