package dialect

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ask is what a client asks for. Nothing in it but Credential holds the client's secret.
type Ask struct {
	// Model, Intent and CallID are the query parameters of those names. Intent is "transcription" or "": any other is an
	// extra parameter.
	Model, Intent, CallID string
	// Preset is the query parameter of that name, which is the gateway's own: it never goes upstream.
	Preset string
	// ExtraQuery holds the query parameters that are none of the known ones, credentials removed.
	ExtraQuery url.Values
	// Header holds the OpenAI-* headers under canonical names, one value each. What browsers can only say in a subprotocol
	// is here too.
	Header http.Header
	// Credential is the secret the client presented.
	Credential Credential
	// Subprotocol is the one to accept: never one that carries a secret; "" for none.
	Subprotocol string
}

// AskError is a request that can not be served as asked, with its HTTP answer.
type AskError struct {
	Status        int
	Code, Message string // Code is machine-readable, Message one line for people
}

func (e *AskError) Error() string { return e.Message }

func badAsk(code, format string, args ...any) *AskError {
	return &AskError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// Credential is a secret; it prints as a placeholder whatever the verb.
type Credential struct{ secret string }

// Reveal returns the secret itself; "" when there is none.
func (c Credential) Reveal() string { return c.secret }

// Check refuses what can be no credential: it would not mean the same in every form, or not go upstream unchanged. Errors
// are *AskError.
func (c Credential) Check() error {
	for i := range len(c.secret) {
		if b := c.secret[i]; b <= ' ' || b >= 0x7f {
			return &AskError{http.StatusUnauthorized, "invalid_api_key", "the API key holds white space, a control character or one that is not ASCII; present it as it was issued"}
		}
	}
	return nil
}

// IsClientSecret reports whether c has the shape of what a provider mints for one client and a few sessions.
func (c Credential) IsClientSecret() bool { return strings.HasPrefix(c.secret, "ek_") }

// String returns a placeholder, or "" when there is no secret.
func (c Credential) String() string {
	if c.secret == "" {
		return ""
	}
	return "[redacted]"
}

// Format implements fmt.Formatter for every verb.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// MarshalText implements encoding.TextMarshaler.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

const (
	intentTranscription = "transcription"
	keyProtocol         = "openai-insecure-api-key."
	maxParameter        = 256 // bytes of a model's or a preset's name or a call's id
)

// credentialParameters are the query parameters in which a client may present its key.
var credentialParameters = []string{"key", "access_token", "api-key"}

// protocolHeaders are the headers that browsers, which cannot set any, send as subprotocols.
var protocolHeaders = []struct{ prefix, header string }{
	{"openai-organization.", "Openai-Organization"},
	{"openai-project.", "Openai-Project"},
	{"openai-beta.", headerBeta},
}

// ParseAsk reads what a client asks for from its upgrade request. header has canonical names; query is not modified.
// Errors are *AskError.
func ParseAsk(query url.Values, header http.Header, subprotocols []string) (Ask, error) {
	a := Ask{
		ExtraQuery: url.Values{},
		Header:     openAIHeaders(header, subprotocols),
		Credential: ClientCredential(query, header, subprotocols),
	}
	a.Subprotocol = chooseProtocol(subprotocols, a.Credential)
	for _, name := range sortedKeys(query) {
		if err := a.parameter(name, query[name]); err != nil {
			return Ask{}, err
		}
	}
	for _, name := range sortedKeys(a.Header) {
		if soundsSecret(name) {
			return Ask{}, badAsk("invalid_header", "header %q may hold a secret and is not forwarded; remove it", displayName(name))
		}
	}
	if a.Model == "" && a.CallID == "" && a.Intent == "" {
		return Ask{}, badAsk("missing_model", "the request names no model; add one of ?model=, ?call_id= or ?intent=transcription")
	}
	return a, nil
}

// parameter takes in one query parameter.
func (a *Ask) parameter(name string, values []string) error {
	switch {
	case name == "model":
		return single(&a.Model, name, values)
	case name == "call_id":
		return single(&a.CallID, name, values)
	case name == "preset":
		return single(&a.Preset, name, values)
	case name == "intent" && all(values, intentTranscription):
		a.Intent = intentTranscription
	case name == "intent" && all(values, ""):
	case slices.Contains(credentialParameters, name):
	case soundsSecret(name):
		return badAsk("invalid_parameter", "query parameter %.64q may hold a secret; present the key in an Authorization header", name)
	default:
		a.ExtraQuery[name] = slices.Clone(values)
	}
	return nil
}

func all(values []string, want string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return v != want })
}

// single sets dst to the one value of a parameter. A second, different one would be read differently by different
// servers.
func single(dst *string, name string, values []string) error {
	for _, v := range values {
		if v == "" {
			continue
		}
		if *dst != "" && *dst != v {
			return badAsk("invalid_parameter", "query parameter %q is given more than once; keep one", name)
		}
		if len(v) > maxParameter || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return badAsk("invalid_parameter", "query parameter %q is longer than %d bytes or not printable text", name, maxParameter)
		}
		*dst = v
	}
	return nil
}

// soundsSecret reports whether a name suggests that its value is a secret.
func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "key") || strings.Contains(name, "token") || strings.Contains(name, "secret")
}

// ClientCredential returns the first credential of a request in the order in which the forms are specific to a client:
// headers, then subprotocol, then query. White space around it is none of it. It is there also for requests that ParseAsk
// refuses.
func ClientCredential(query url.Values, header http.Header, subprotocols []string) Credential {
	for _, v := range header.Values("Authorization") {
		scheme, token, _ := strings.Cut(strings.TrimSpace(v), " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			return Credential{token}
		}
	}
	for _, name := range []string{"Api-Key", "X-Goog-Api-Key"} {
		if v := strings.TrimSpace(header.Get(name)); v != "" {
			return Credential{v}
		}
	}
	for _, p := range subprotocols {
		if v, ok := cutPrefixFold(p, keyProtocol); ok && strings.TrimSpace(v) != "" {
			return Credential{strings.TrimSpace(v)}
		}
	}
	for _, name := range credentialParameters {
		if v := strings.TrimSpace(query.Get(name)); v != "" {
			return Credential{v}
		}
	}
	return Credential{}
}

func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// chooseProtocol returns the subprotocol to accept. Clients that offered some fail when none comes back.
func chooseProtocol(offered []string, c Credential) string {
	if slices.Contains(offered, "realtime") {
		return "realtime"
	}
	for _, p := range offered {
		if !carriesSecret(p) && (c.secret == "" || !strings.Contains(p, c.secret)) {
			return p
		}
	}
	return ""
}

// carriesSecret errs on the side of secrecy: what looks like a key, or like a name for one, is never sent back.
func carriesSecret(protocol string) bool {
	p := strings.ToLower(protocol)
	if soundsSecret(p) || strings.Contains(p, "bearer") || strings.Contains(p, "auth") || strings.Contains(p, "password") {
		return true
	}
	for _, mark := range []string{"sk-", "ek_", "eyj"} { // API keys, client secrets, JSON Web Tokens
		if strings.HasPrefix(p, mark) || strings.Contains(p, "."+mark) {
			return true
		}
	}
	return false
}

// openAIHeaders returns the OpenAI-* headers of a request, each joined to one line (RFC 9110 section 5.3), empty ones
// left out.
func openAIHeaders(header http.Header, subprotocols []string) http.Header {
	out := http.Header{}
	for name, values := range header {
		if _, ok := cutPrefixFold(name, "Openai-"); !ok {
			continue
		}
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return strings.TrimSpace(v) == "" })
		if len(values) > 0 {
			out.Set(name, strings.Join(values, ", "))
		}
	}
	for _, p := range subprotocols {
		for _, m := range protocolHeaders {
			v, ok := cutPrefixFold(p, m.prefix)
			if !ok || v == "" || out.Get(m.header) != "" {
				continue
			}
			if m.header == headerBeta {
				v = strings.Replace(v, "-", "=", 1) // "=" is not legal in a subprotocol: realtime-v1 is realtime=v1
			}
			out.Set(m.header, v)
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
