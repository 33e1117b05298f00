package dialect

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func target(t *testing.T, up Upstream, ask Ask) Target {
	t.Helper()
	if up.Dialect == "" {
		up.Dialect = "openai"
	}
	got, err := dialectNamed(t, up.Dialect).Target(up, ask)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTargetURL(t *testing.T) {
	f := func(base, want string) {
		t.Helper()
		up := Upstream{Dialect: "compatible", BaseURL: mustURL(t, base)}
		before := up.BaseURL.String()
		if got := target(t, up, Ask{Model: "org/m 1"}).URL.String(); got != want {
			t.Errorf("%s becomes %s, want %s", base, got, want)
		}
		if up.BaseURL.String() != before {
			t.Errorf("the base URL became %s", up.BaseURL)
		}
	}
	const end = "/v1/realtime?model=org%2Fm+1"
	f("ws://127.0.0.1:8000", "ws://127.0.0.1:8000"+end)
	f("http://127.0.0.1:8000/", "ws://127.0.0.1:8000"+end)
	f("https://Example.test/v1", "wss://example.test"+end)
	f("WSS://example.test/v1/", "wss://example.test"+end)
	f("wss://example.test/v1/realtime", "wss://example.test"+end)
	f("wss://example.test//v1//realtime/", "wss://example.test"+end)
	f("wss://example.test/openai", "wss://example.test/openai"+end)
	f("wss://example.test/openai/v1", "wss://example.test/openai"+end)
	f("wss://example.test/api-ws/v1beta", "wss://example.test/api-ws/v1beta/realtime?model=org%2Fm+1")
	f("wss://example.test/v1/realtime/sessions#top", "wss://example.test/v1/realtime/sessions?model=org%2Fm+1")
	f("wss://[::1]:8443/?zone=a&model=fixed", "wss://[::1]:8443/v1/realtime?model=org%2Fm+1&zone=a")
	if got := target(t, Upstream{}, Ask{Model: "gpt-realtime"}).URL.String(); got != "wss://api.openai.com/v1/realtime?model=gpt-realtime" {
		t.Errorf("the default address is %s", got)
	}
}

func TestTargetAsksForExactlyOneThing(t *testing.T) {
	f := func(up Upstream, ask Ask, wantQuery, wantName string) {
		t.Helper()
		got := target(t, up, ask)
		if got.URL.RawQuery != wantQuery || got.Name != wantName {
			t.Errorf("%+v = %s as %s, want %s as %s", ask, got.URL.RawQuery, got.Name, wantQuery, wantName)
		}
	}
	f(Upstream{}, Ask{Model: "m"}, "model=m", "openai/m")
	f(Upstream{Model: "real"}, Ask{Model: "m"}, "model=real", "openai/real")
	f(Upstream{Name: "eu"}, Ask{Model: "m"}, "model=m", "eu/m")
	f(Upstream{}, Ask{Intent: "transcription", Model: "m"}, "intent=transcription", "openai/transcription")
	f(Upstream{Model: "real"}, Ask{Intent: "transcription"}, "intent=transcription", "openai/transcription")
	f(Upstream{Model: "real"}, Ask{CallID: "rtc_1", Model: "m", Intent: "transcription"}, "call_id=rtc_1", "openai/call")
}

func TestTargetHeaders(t *testing.T) {
	f := func(up Upstream, ask Ask, want http.Header) {
		t.Helper()
		ask.Model = "m"
		if got := target(t, up, ask).Header; !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%+v = %v, want %v", ask, got, want)
		}
	}
	f(Upstream{}, Ask{}, http.Header{})
	f(Upstream{}, Ask{Credential: Credential{"client"}}, http.Header{})
	f(Upstream{Credential: "sk-test-1", Organization: "org-1", Project: "proj_1", SafetyIdentifier: "s"}, Ask{Credential: Credential{"client"}}, http.Header{
		"Authorization": {"Bearer sk-test-1"}, "Openai-Organization": {"org-1"}, "Openai-Project": {"proj_1"}, "Openai-Safety-Identifier": {"s"},
	})
	f(Upstream{Organization: "org-1"}, Ask{Header: http.Header{"Openai-Organization": {"org-2"}, "Openai-Foo": {"x"}}},
		http.Header{"Openai-Organization": {"org-2"}, "Openai-Foo": {"x"}})
}

func TestCaseM1BetaHeaderOnlyWhenAskedFor(t *testing.T) {
	client := http.Header{"Openai-Beta": {"realtime=v1"}}
	f := func(beta bool, h http.Header, want []string, wantBypass string) {
		t.Helper()
		got := target(t, Upstream{Beta: beta}, Ask{Model: "m", Header: h})
		if !slices.Equal(got.Header["Openai-Beta"], want) || got.Bypass != wantBypass {
			t.Errorf("config %v, client %v: %q, bypass %q; want %q, %q", beta, h, got.Header["Openai-Beta"], got.Bypass, want, wantBypass)
		}
	}
	f(false, nil, nil, "")
	f(true, nil, []string{"realtime=v1"}, "")
	f(true, client, []string{"realtime=v1"}, "")
	f(false, client, []string{"realtime=v1"}, `header "OpenAI-Beta"`)
	f(true, http.Header{"Openai-Beta": {"other=v2"}}, []string{"other=v2"}, `header "OpenAI-Beta"`)
}

func TestTargetBypass(t *testing.T) {
	up := Upstream{Organization: "org-1", BaseURL: mustURL(t, "wss://example.test?zone=a"), Credential: "sk-test-1"}
	f := func(up Upstream, ask Ask, want string) {
		t.Helper()
		if ask.CallID == "" {
			ask.Model = "m"
		}
		if got := target(t, up, ask).Bypass; got != want {
			t.Errorf("%+v: bypass %q, want %q", ask, got, want)
		}
	}
	f(up, Ask{}, "")
	f(up, Ask{Header: http.Header{"Openai-Organization": {"org-1"}}}, "")
	f(up, Ask{Header: http.Header{"Openai-Organization": {"org-2"}}}, `header "OpenAI-Organization"`)
	f(up, Ask{Header: http.Header{"Openai-Project": {"p"}}}, `header "OpenAI-Project"`)
	f(up, Ask{Header: http.Header{"Openai-Safety-Identifier": {"p"}}}, `header "OpenAI-Safety-Identifier"`)
	f(up, Ask{Header: http.Header{"Openai-Foo": {"p"}}}, `header "OpenAI-Foo"`)
	f(up, Ask{ExtraQuery: url.Values{"x": {"1"}}}, `query parameter "x"`)
	f(up, Ask{ExtraQuery: url.Values{"zone": {"a"}}}, "")
	f(up, Ask{CallID: "rtc_1"}, "call_id")
	f(Upstream{Credential: "ek_123"}, Ask{}, "client secret")
}

func TestTargetErrors(t *testing.T) {
	f := func(name string, up Upstream, want string) {
		t.Helper()
		_, err := dialectNamed(t, "compatible").Target(up, Ask{Model: "m"})
		if !errors.Is(err, ErrUpstream) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-test-") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	f("no address", Upstream{}, "base URL")
	f("scheme", Upstream{BaseURL: mustURL(t, "ftp://example.test")}, `"ftp"`)
	f("host", Upstream{BaseURL: mustURL(t, "wss:///v1")}, "no host")
	f("user", Upstream{BaseURL: mustURL(t, "wss://u:sk-test-1@example.test")}, "user name")
	f("line break", Upstream{BaseURL: mustURL(t, "wss://example.test"), Credential: "sk-test-1\r\nX: y"}, "Authorization")
	f("line break", Upstream{BaseURL: mustURL(t, "wss://example.test"), Organization: "a\nb"}, "OpenAI-Organization")
	up := Upstream{BaseURL: mustURL(t, "wss://example.test?zone=a")}
	_, err := dialectNamed(t, "compatible").Target(up, Ask{Model: "m", ExtraQuery: url.Values{"zone": {"b"}}})
	var ask *AskError
	if !errors.As(err, &ask) || ask.Status != http.StatusBadRequest {
		t.Errorf("a parameter the operator fixed: %v", err)
	}
}

func TestCaseB3EveryHandshakeInputIsInTheKey(t *testing.T) {
	base := Upstream{BaseURL: mustURL(t, "wss://example.test"), Credential: "sk-test-k1"}
	variants := map[string]func(*Upstream, *Ask){
		"":                func(*Upstream, *Ask) {},
		"dialect":         func(u *Upstream, _ *Ask) { u.Dialect = "compatible" },
		"scheme":          func(u *Upstream, _ *Ask) { u.BaseURL = mustURL(t, "ws://example.test") },
		"host":            func(u *Upstream, _ *Ask) { u.BaseURL = mustURL(t, "wss://other.test") },
		"port":            func(u *Upstream, _ *Ask) { u.BaseURL = mustURL(t, "wss://example.test:8443") },
		"path":            func(u *Upstream, _ *Ask) { u.BaseURL = mustURL(t, "wss://example.test/openai") },
		"base query":      func(u *Upstream, _ *Ask) { u.BaseURL = mustURL(t, "wss://example.test?api-version=1") },
		"credential":      func(u *Upstream, _ *Ask) { u.Credential = "sk-test-k2" },
		"no credential":   func(u *Upstream, _ *Ask) { u.Credential = "" },
		"organization":    func(u *Upstream, _ *Ask) { u.Organization = "x" },
		"project":         func(u *Upstream, _ *Ask) { u.Project = "x" },
		"safety":          func(u *Upstream, _ *Ask) { u.SafetyIdentifier = "x" },
		"beta":            func(u *Upstream, _ *Ask) { u.Beta = true },
		"upstream model":  func(u *Upstream, _ *Ask) { u.Model = "m2" },
		"model":           func(_ *Upstream, a *Ask) { a.Model = "m3" },
		"intent":          func(_ *Upstream, a *Ask) { a.Intent = "transcription" },
		"model as intent": func(_ *Upstream, a *Ask) { a.Model = "transcription" },
		"call":            func(_ *Upstream, a *Ask) { a.CallID = "m1" },
		"extra query":     func(_ *Upstream, a *Ask) { a.ExtraQuery = url.Values{"x": {"1"}} },
		"extra header":    func(_ *Upstream, a *Ask) { a.Header = http.Header{"Openai-Foo": {"1"}} },
	}
	seen := map[string]string{}
	for name, change := range variants {
		up, ask := base, Ask{Model: "m1"}
		up.Dialect = "openai"
		change(&up, &ask)
		got, again := target(t, up, ask), target(t, up, ask)
		if got.Key != again.Key {
			t.Errorf("%q: the key is not stable", name)
		}
		if len(got.Key) != 64 || strings.Trim(got.Key, "0123456789abcdef") != "" {
			t.Errorf("%q: key %q is not 64 hexadecimal digits", name, got.Key)
		}
		if other, dup := seen[got.Key]; dup {
			t.Errorf("%q and %q have one key", name, other)
		}
		seen[got.Key] = name
	}

	// What is not part of the handshake is not part of the key.
	plain := target(t, base, Ask{Model: "m1"})
	named := base
	named.Name, named.Model = "people's name", "m1"
	if got := target(t, named, Ask{Model: "alias", Credential: Credential{"client"}, Subprotocol: "realtime"}); got.Key != plain.Key {
		t.Error("a name for people, or the client's own credential, changes the key")
	}
}

// Fields are separated by their lengths: moving a byte from one to the next is another key.
func TestCaseB3KeyFieldsCannotCollide(t *testing.T) {
	u := mustURL(t, "wss://example.test/v1/realtime?model=m")
	seen := map[string]string{}
	for _, h := range []http.Header{
		{"A": {"b", "c"}}, {"A": {"bc"}}, {"A": {"b"}, "C": {}}, {"A": {"b"}, "C": {""}}, {"Ab": {"c"}}, {"A": {"", "bc"}}, {"A": {"b"}, "B": {"c"}},
		{"A": {}, "B": {"b", "c"}}, {},
	} {
		for _, protocols := range [][]string{nil, {"A"}, {"A", "b"}, {"Ab"}} {
			name := fmt.Sprintf("%q %q", h, protocols)
			key := targetKey("x", Target{URL: u, Header: h, Subprotocols: protocols})
			if other, dup := seen[key]; dup {
				t.Errorf("%s and %s have one key", name, other)
			}
			seen[key] = name
		}
	}
}

func TestCaseI3NoCredentialInSubprotocols(t *testing.T) {
	ask, err := parse(t, "model=m", nil, "realtime", "openai-insecure-api-key.sk-test-SECRET", "openai-organization.org-1")
	if err != nil {
		t.Fatal(err)
	}
	got := target(t, Upstream{Credential: "sk-test-own"}, ask)
	if sent := fmt.Sprint(got.URL, got.Header, got.Subprotocols, got.Name, got.Bypass, got.Key); strings.Contains(sent, "SECRET") {
		t.Errorf("the client's key is in the handshake: %s", sent)
	}
}

func TestLookup(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"compatible", "openai"}) {
		t.Errorf("names = %q", got)
	}
	for _, name := range Names() {
		if d := dialectNamed(t, name); d.Name() != name || d.Defaults().MaxIdle <= 0 {
			t.Errorf("%s is %q, defaults %+v", name, d.Name(), d.Defaults())
		}
	}
	if _, ok := Lookup("morse"); ok {
		t.Error("an unknown name has a dialect")
	}
}
