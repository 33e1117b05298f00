package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func parse(t *testing.T, query string, header http.Header, protocols ...string) (Ask, error) {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return ParseAsk(q, header, protocols)
}

func TestParseAskQuery(t *testing.T) {
	f := func(query string, want Ask) {
		t.Helper()
		got, err := parse(t, query, nil)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		if got.Model != want.Model || got.Intent != want.Intent || got.CallID != want.CallID || got.Preset != want.Preset || got.ExtraQuery.Encode() != want.ExtraQuery.Encode() {
			t.Errorf("%s = %+v, want %+v", query, got, want)
		}
	}
	f("model=gpt-realtime", Ask{Model: "gpt-realtime"})
	f("model=org%2Fmodel&model=org/model", Ask{Model: "org/model"})
	f("intent=transcription", Ask{Intent: "transcription"})
	f("intent=transcription&model=m", Ask{Intent: "transcription", Model: "m"})
	f("intent=&model=m", Ask{Model: "m"})
	f("intent=conversation&model=m", Ask{Model: "m", ExtraQuery: url.Values{"intent": {"conversation"}}})
	f("call_id=rtc_1", Ask{CallID: "rtc_1"})
	f("model=m&preset=p", Ask{Model: "m", Preset: "p"})
	f("model=m&preset=&preset=p&preset=p", Ask{Model: "m", Preset: "p"})
	f("model=m&foo=1&foo=2&key=k&access_token=a&api-key=b", Ask{Model: "m", ExtraQuery: url.Values{"foo": {"1", "2"}}})
}

func TestParseAskRefusals(t *testing.T) {
	f := func(query string, header http.Header, wantCode, wantInMessage string) {
		t.Helper()
		_, err := parse(t, query, header)
		var ask *AskError
		if !errors.As(err, &ask) || ask.Status != http.StatusBadRequest || ask.Code != wantCode || !strings.Contains(ask.Message, wantInMessage) {
			t.Errorf("%s = %#v, want 400 %s with %q", query, err, wantCode, wantInMessage)
		}
		if err != nil && strings.Contains(err.Error(), "sk-test-") {
			t.Errorf("%s: the message repeats the secret: %v", query, err)
		}
	}
	f("", nil, "missing_model", "?model=")
	f("model=", nil, "missing_model", "?model=")
	f("intent=other", nil, "missing_model", "?model=")
	f("foo=1", nil, "missing_model", "?model=")
	f("model=a&model=b", nil, "invalid_parameter", "more than once")
	f("model=m&preset=a&preset=b", nil, "invalid_parameter", "more than once")
	f("model=a%0d%0ab", nil, "invalid_parameter", "printable")
	f("model=%ff", nil, "invalid_parameter", "printable")
	f("call_id="+strings.Repeat("x", 257), nil, "invalid_parameter", "256")
	f("model=m&api_key=sk-test-QUERY", nil, "invalid_parameter", `"api_key"`)
	f("model=m&KEY=sk-test-QUERY", nil, "invalid_parameter", `"KEY"`)
	f("model=m&x-Token=sk-test-QUERY", nil, "invalid_parameter", `"x-Token"`)
	f("model=m&client_secret=sk-test-QUERY", nil, "invalid_parameter", `"client_secret"`)
	f("model=m", http.Header{"Openai-Api-Key": {"sk-test-HEADER"}}, "invalid_header", `"OpenAI-Api-Key"`)
}

func TestParseAskCredential(t *testing.T) {
	f := func(name string, query string, header http.Header, protocols []string, want string) {
		t.Helper()
		got, err := parse(t, "model=m&"+query, header, protocols...)
		if err != nil || got.Credential.Reveal() != want {
			t.Errorf("%s = %q, %v; want %q", name, got.Credential.Reveal(), err, want)
		}
	}
	f("none", "", nil, nil, "")
	f("bearer", "", http.Header{"Authorization": {"Bearer k1"}}, nil, "k1")
	f("bearer, any case", "", http.Header{"Authorization": {"bEaReR   k1 "}}, nil, "k1")
	f("another scheme", "", http.Header{"Authorization": {"Basic k1"}}, nil, "")
	f("no token", "", http.Header{"Authorization": {"Bearer "}}, nil, "")
	f("second line", "", http.Header{"Authorization": {"Basic x", "Bearer k1"}}, nil, "k1")
	f("api-key", "", http.Header{"Api-Key": {"k1"}}, nil, "k1")
	f("x-goog-api-key", "", http.Header{"X-Goog-Api-Key": {"k1"}}, nil, "k1")
	f("subprotocol", "", nil, []string{"realtime", "openai-insecure-api-key.k1"}, "k1")
	f("subprotocol, any case", "", nil, []string{"OpenAI-Insecure-Api-Key.k1"}, "k1")
	f("empty subprotocol", "", nil, []string{"openai-insecure-api-key."}, "")
	f("key", "key=k1", nil, nil, "k1")
	f("access_token", "access_token=k1", nil, nil, "k1")
	f("?api-key", "api-key=k1", nil, nil, "k1")
	f("white space in a query", "key=%20%0d%0ak1%09%20", nil, nil, "k1")
	f("white space alone in a query", "key=%20%20&access_token=k1", nil, nil, "k1")
	f("white space in a subprotocol", "", nil, []string{"openai-insecure-api-key. k1 "}, "k1")
	f("white space alone in a subprotocol", "key=k1", nil, []string{"openai-insecure-api-key. "}, "k1")
	f("the header wins", "key=k3", http.Header{"Authorization": {"Bearer k1"}, "Api-Key": {"k2"}}, nil, "k1")
}

func TestWhatCanBeNoCredential(t *testing.T) {
	for _, good := range []string{"", "k", "sk-test-~!", "k%&=+/"} {
		if err := (Credential{good}).Check(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"a b", "a\tb", "a\r\nX-Evil: 1", "a\x00b", "x\x7fy", "\xe9\xe9", "€-key", "\u200bek_rtd_x"} {
		ask, ok := errors.AsType[*AskError]((Credential{bad}).Check())
		if !ok || ask.Status != http.StatusUnauthorized || ask.Code != "invalid_api_key" || strings.Contains(ask.Message, bad) {
			t.Errorf("%q: %+v", bad, ask)
		}
	}
}

func TestParseAskHeaders(t *testing.T) {
	f := func(header http.Header, protocols []string, want http.Header) {
		t.Helper()
		got, err := parse(t, "model=m", header, protocols...)
		if err != nil || fmt.Sprint(got.Header) != fmt.Sprint(want) {
			t.Errorf("%v %q = %v, %v; want %v", header, protocols, got.Header, err, want)
		}
	}
	f(http.Header{"Origin": {"https://x"}, "Cookie": {"c"}, "Authorization": {"Bearer k"}, "X-Openai-Agents-Sdk": {"1"}}, nil, http.Header{})
	f(http.Header{"Openai-Organization": {"org-1"}, "Openai-Foo": {"a", "b"}, "Openai-Project": {" "}}, nil,
		http.Header{"Openai-Organization": {"org-1"}, "Openai-Foo": {"a, b"}})
	// What browsers say in subprotocols.
	f(nil, []string{"realtime", "openai-organization.org-1", "openai-project.proj_1", "openai-beta.realtime-v1", "openai-agents-sdk.0.1"},
		http.Header{"Openai-Organization": {"org-1"}, "Openai-Project": {"proj_1"}, "Openai-Beta": {"realtime=v1"}})
	f(http.Header{"Openai-Organization": {"org-1"}}, []string{"openai-organization.org-2"}, http.Header{"Openai-Organization": {"org-1"}})
}

func TestCaseI3SubprotocolToAccept(t *testing.T) {
	f := func(want string, offered ...string) {
		t.Helper()
		got, err := parse(t, "model=m", http.Header{"Authorization": {"Bearer opaque"}}, offered...)
		if err != nil || got.Subprotocol != want {
			t.Errorf("of %q: %q, %v; want %q", offered, got.Subprotocol, err, want)
		}
	}
	f("")
	f("realtime", "realtime")
	f("realtime", "openai-insecure-api-key.sk-test-SECRET", "openai-agents-sdk.0.1", "realtime")
	f("openai-agents-sdk.0.1", "openai-insecure-api-key.sk-test-SECRET", "openai-agents-sdk.0.1")
	f("chat", "chat", "superchat")
	f("", "openai-insecure-api-key.sk-test-SECRET")
	f("", "OPENAI-INSECURE-API-KEY.sk-test-SECRET")
	f("", "sk-test-SECRET", "x.sk-test-SECRET", "ek_123", "access_token", "bearer.abc", "eyJhbGciOi", "MyAuth-abc")
	f("", "v1.opaque.x")
}

func TestCredentialNeverPrints(t *testing.T) {
	ask, err := parse(t, "model=m", http.Header{"Authorization": {"Bearer sk-test-SECRET"}})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	out := string(encoded) + fmt.Sprint(ask, &ask, ask.Credential, []any{ask.Credential})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		out += fmt.Sprintf(verb+verb+verb, ask, ask.Credential, &ask.Credential)
	}
	if strings.Contains(out, "SECRET") || strings.Contains(out, fmt.Sprintf("%x", "SECRET")) {
		t.Errorf("the secret is printed: %s", out)
	}
	if !strings.Contains(out, "[redacted]") {
		t.Errorf("nothing says that there is a credential: %s", out)
	}
	if s := fmt.Sprint(Credential{}); s != "" {
		t.Errorf("no credential prints as %q", s)
	}
}
