package redact

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"net/url"
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
	mu      sync.Mutex               // held by Add, Hide and Release
	secrets atomic.Pointer[[]string] // longest first; never modified in place
	hidden  map[[sha256.Size]byte]*Hidden
	prints  atomic.Pointer[[][]fingerprint] // of hidden, by length; never modified in place
}

// New returns a Redactor that knows the secrets and the shapes of credentials.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	r.secrets.Store(&[]string{})
	r.prints.Store(&[][]fingerprint{})
	for _, s := range secrets {
		r.Add(s)
	}
	return r
}

// Add registers a secret for good. Each line of one that has several is a secret of its own; white space around it is
// none of it.
func (r *Redactor) Add(secret string) {
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= MinSecret {
			r.add(line)
			// Decoding finds these too, but for where the text before ends in half an escape.
			for _, form := range []string{url.QueryEscape(line), url.PathEscape(line)} {
				r.add(form)
				r.add(lowerEscapes(form))
			}
		}
	}
}

// lowerEscapes writes the digits of percent escapes in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' && i+2 < len(b) {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

func (r *Redactor) add(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := *r.secrets.Load()
	if slices.Contains(known, secret) {
		return
	}
	known = append(slices.Clone(known), secret)
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r.secrets.Store(&known)
}

// longest returns the length of the longest registered secret.
func (r *Redactor) longest() int {
	n := 0
	if s := *r.secrets.Load(); len(s) > 0 {
		n = len(s[0])
	}
	return n
}

// String returns s without secrets; it may be longer than s.
func (r *Redactor) String(s string) string { return replace(s, r.find(s, *r.prints.Load())) }

// replace puts the placeholder where the spans are.
func replace(s string, spans []span) string {
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
func (r *Redactor) find(s string, hidden [][]fingerprint) []span {
	plain := view{text: s}
	spans := r.findIn(plain, nil, hidden)
	for _, v := range plain.decodings() {
		spans = r.findIn(v, spans, hidden)
	}
	return merge(spans)
}

func (r *Redactor) findIn(v view, spans []span, hidden [][]fingerprint) []span {
	for _, secret := range *r.secrets.Load() {
		spans = v.findSecret(spans, secret)
	}
	return v.findShapes(v.findHidden(spans, hidden))
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
