package redact

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Placeholder stands where a secret was.
const Placeholder = "[redacted]"

// MinSecret is the length in bytes from which a registered secret is replaced.
const MinSecret = 4

// Redactor knows secrets. It is safe for concurrent use. Make it with New.
type Redactor struct {
	mu      sync.Mutex               // held by Add
	secrets atomic.Pointer[[]string] // longest first; never modified in place
}

// New returns a Redactor that knows the secrets and the shapes of credentials.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	r.secrets.Store(&[]string{})
	for _, s := range secrets {
		r.Add(s)
	}
	return r
}

// Add registers a secret for good. Each line of one that has several is a secret of its own; white space around it is
// none of it.
func (r *Redactor) Add(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(secret) {
		line = strings.TrimSpace(line)
		if known := *r.secrets.Load(); len(line) >= MinSecret && !slices.Contains(known, line) {
			known = append(slices.Clone(known), line)
			slices.SortFunc(known, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
			r.secrets.Store(&known)
		}
	}
}

// longest returns the length of the longest registered secret.
func (r *Redactor) longest() int {
	if s := *r.secrets.Load(); len(s) > 0 {
		return len(s[0])
	}
	return 0
}

// String returns s without secrets; it may be longer than s.
func (r *Redactor) String(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	var out strings.Builder
	from := 0
	for _, sp := range spans {
		out.WriteString(s[from:sp.from])
		out.WriteString(Placeholder)
		from = sp.to
	}
	out.WriteString(s[from:])
	return out.String()
}

// Bytes returns b without secrets: b itself when it holds none, else a new slice, which may be longer. b is not modified.
func (r *Redactor) Bytes(b []byte) []byte {
	s := string(b)
	if out := r.String(s); out != s {
		return []byte(out)
	}
	return b
}

// span is a secret's place in a text.
type span struct{ from, to int }

// find returns the places of all secrets in s, in order and apart from each other.
func (r *Redactor) find(s string) []span {
	var spans []span
	secrets := *r.secrets.Load()
	for _, v := range views(s) {
		for _, secret := range secrets {
			spans = v.findSecret(spans, secret)
		}
		spans = v.findShapes(spans)
	}
	return merge(spans)
}

// merge sorts spans and joins those that touch.
func merge(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := spans[:1]
	for _, sp := range spans[1:] {
		if last := &out[len(out)-1]; sp.from <= last.to {
			last.to = max(last.to, sp.to)
		} else {
			out = append(out, sp)
		}
	}
	return out
}
