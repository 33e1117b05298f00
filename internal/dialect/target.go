package dialect

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ErrUpstream is wrapped by the errors of Target that a configuration must be changed for.
var ErrUpstream = errors.New("upstream cannot be dialled")

const (
	headerBeta = "Openai-Beta"
	betaValue  = "realtime=v1"
)

// displayName renders a canonical header name as people write it.
func displayName(header string) string {
	if rest, ok := strings.CutPrefix(header, "Openai-"); ok {
		return "OpenAI-" + rest
	}
	return header
}

// realtimeURL completes a base URL to the address of the realtime endpoint, its query kept.
func realtimeURL(base *url.URL) (*url.URL, error) {
	u := *base
	switch u.Scheme {
	case "ws", "wss":
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	default:
		return nil, fmt.Errorf("%w: base URL has scheme %q; use wss, ws, https or http", ErrUpstream, u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%w: base URL names no host", ErrUpstream)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: base URL of %s holds a user name; configure the credential by itself", ErrUpstream, u.Host)
	}
	u.Host = strings.ToLower(u.Host)
	u.Path, u.RawPath, u.Fragment, u.RawFragment = realtimePath(u.Path), "", "", ""
	return &u, nil
}

var version = regexp.MustCompile(`^v[0-9]+[a-z0-9]*$`)

// realtimePath appends what is missing of /v1/realtime.
func realtimePath(path string) string {
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if !slices.Contains(segments, "realtime") {
		if n := len(segments); n == 0 || !version.MatchString(segments[n-1]) {
			segments = append(segments, "v1")
		}
		segments = append(segments, "realtime")
	}
	return "/" + strings.Join(segments, "/")
}

// query completes the base URL's query: exactly one of call_id, intent and model, and the client's extra parameters.
// What the base URL sets is the operator's decision and may not be set otherwise.
func query(u *url.URL, up Upstream, ask Ask) (q url.Values, bypass string, err error) {
	q = u.Query()
	fixed := u.Query()
	for _, name := range []string{"call_id", "intent", "model"} {
		q.Del(name)
	}
	switch {
	case ask.CallID != "":
		q.Set("call_id", ask.CallID)
	case ask.Intent != "":
		q.Set("intent", ask.Intent)
	default:
		q.Set("model", modelName(up, ask))
	}
	for _, name := range sortedKeys(ask.ExtraQuery) {
		values := ask.ExtraQuery[name]
		if fixed.Has(name) {
			if slices.Equal(values, fixed[name]) {
				continue
			}
			return nil, "", badAsk("invalid_parameter", "query parameter %.64q is fixed by the gateway; remove it", name)
		}
		q[name] = values
		if bypass == "" {
			bypass = fmt.Sprintf("query parameter %.64q", name)
		}
	}
	return q, bypass, nil
}

// headers merges the configured headers with the client's OpenAI-* headers, which win and make the session a bypass
// where they differ.
func headers(up Upstream, ask Ask) (h http.Header, bypass string) {
	h = http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Openai-Organization", up.Organization)
	set("Openai-Project", up.Project)
	set("Openai-Safety-Identifier", up.SafetyIdentifier)
	if up.Beta {
		set(headerBeta, betaValue)
	}
	for _, name := range sortedKeys(ask.Header) {
		value := ask.Header.Get(name)
		if value == h.Get(name) {
			continue
		}
		h.Set(name, value)
		if bypass == "" {
			bypass = fmt.Sprintf("header %.64q", displayName(name))
		}
	}
	if up.Credential != "" {
		h.Set("Authorization", "Bearer "+up.Credential)
	}
	return h, bypass
}

// checkHeaders refuses what would break out of a header line.
func checkHeaders(h http.Header) error {
	for _, name := range sortedKeys(h) {
		for _, v := range h[name] {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("%w: header %s would hold a control character; check the configured value for a line break", ErrUpstream, displayName(name))
			}
		}
	}
	return nil
}

func modelName(up Upstream, ask Ask) string {
	if up.Model != "" {
		return up.Model
	}
	return ask.Model
}

// targetName is what people call a target.
func targetName(up Upstream, ask Ask) string {
	name := up.Name
	if name == "" {
		name = up.Dialect
	}
	switch {
	case ask.CallID != "":
		return name + "/call"
	case ask.Intent != "":
		return name + "/" + ask.Intent
	}
	return name + "/" + modelName(up, ask)
}

// keySecret salts the keys of this process, so that a key that leaks gives no way to test guesses at a credential.
var keySecret = func() []byte {
	b := make([]byte, sha256.Size)
	rand.Read(b) // never fails
	return b
}()

// targetKey digests everything a handshake is made of. Every field is preceded by its length and every list by its
// count, so that no two different handshakes are the same bytes.
func targetKey(dialect string, t Target) string {
	mac := hmac.New(sha256.New, keySecret)
	for _, s := range []string{dialect, t.URL.Scheme, t.URL.Host, t.URL.EscapedPath(), t.URL.RawQuery} {
		digestString(mac, s)
	}
	digestList(mac, t.Subprotocols)
	digestCount(mac, len(t.Header))
	for _, name := range sortedKeys(t.Header) {
		digestString(mac, name)
		digestList(mac, t.Header[name])
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func digestCount(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func digestString(h hash.Hash, s string) {
	digestCount(h, len(s))
	h.Write([]byte(s))
}

func digestList(h hash.Hash, list []string) {
	digestCount(h, len(list))
	for _, s := range list {
		digestString(h, s)
	}
}
