package redact

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// The lengths in bytes between which a secret is hidden. Shorter ones are words that others use too; longer ones are no
// keys, and each length costs a pass over the text.
const (
	minHidden = 16
	maxHidden = 1 << 10
)

// Hidden is a secret that is known for a while, by its digests alone. Several may hide the same secret.
type Hidden struct {
	r     *Redactor
	print fingerprint
	refs  int // guarded by Redactor.mu
}

// fingerprint finds a secret in a text without knowing it: a rolling sum says where to look closer.
type fingerprint struct {
	length int
	sum    uint64
	digest [sha256.Size]byte
}

// Hide registers a secret until Release, without keeping it. nil, which may be released too, stands for what is too short
// or too long to be hidden, or no key by its letters. String and Bytes find it as it is presented, and in its
// percent-encoded and escaped forms; a Writer does not.
func (r *Redactor) Hide(secret string) *Hidden {
	secret = strings.TrimSpace(secret)
	if len(secret) < minHidden || len(secret) > maxHidden || strings.ContainsFunc(secret, notOfAKey) {
		return nil
	}
	p := fingerprint{len(secret), sumOf(secret), digestOf(secret)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.hidden[p.digest]; h != nil {
		h.refs++
		return h
	}
	if r.hidden == nil {
		r.hidden = map[[sha256.Size]byte]*Hidden{}
	}
	h := &Hidden{r: r, print: p, refs: 1}
	r.hidden[p.digest] = h
	r.publish(p, true)
	return h
}

// notOfAKey reports whether c stands in no key: those are tokens (RFC 6750 section 2.1), some with a colon in it.
func notOfAKey(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/=:", c))
}

// Release forgets the secret, unless someone else hides it too. Once for each Hide.
func (h *Hidden) Release() {
	if h == nil {
		return
	}
	r := h.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.refs--; h.refs == 0 {
		delete(r.hidden, h.print.digest)
		r.publish(h.print, false)
	}
}

// publish lets readers see a change of one secret: a new list of those of its length, in the order of their sums.
func (r *Redactor) publish(p fingerprint, present bool) {
	before := *r.prints.Load()
	at := slices.IndexFunc(before, func(g []fingerprint) bool { return g[0].length == p.length })
	groups := slices.Clone(before)
	var group []fingerprint
	if at >= 0 {
		group = slices.Clone(before[at])
	}
	if present {
		i, _ := slices.BinarySearchFunc(group, p.sum, bySum)
		group = slices.Insert(group, i, p)
	} else {
		group = slices.DeleteFunc(group, func(f fingerprint) bool { return f == p })
	}
	switch {
	case at < 0:
		groups = append(groups, group)
	case len(group) == 0:
		groups = slices.Delete(groups, at, at+1)
	default:
		groups[at] = group
	}
	r.prints.Store(&groups)
}

func bySum(f fingerprint, sum uint64) int { return cmp.Compare(f.sum, sum) }

// findHidden adds every occurrence of the hidden secrets.
func (v view) findHidden(spans []span, groups [][]fingerprint) []span {
	for _, group := range groups {
		spans = v.findGroup(spans, group)
	}
	return spans
}

// findGroup finds those of one length (the Rabin-Karp algorithm).
func (v view) findGroup(spans []span, group []fingerprint) []span {
	n := group[0].length
	if len(v.text) < n {
		return spans
	}
	first := power(n - 1)
	sum := sumOf(v.text[:n])
	for at := 0; ; at++ {
		i, maybe := slices.BinarySearchFunc(group, sum, bySum)
		if maybe {
			digest := digestOf(v.text[at : at+n])
			for ; i < len(group) && group[i].sum == sum; i++ {
				if group[i].digest == digest {
					spans = v.add(spans, at, at+n)
				}
			}
		}
		if at+n == len(v.text) {
			return spans
		}
		sum = add(multiply(subtract(sum, multiply(uint64(v.text[at]), first)), base), uint64(v.text[at+n]))
	}
}

// The rolling sum is a polynomial modulo a Mersenne prime at a point that is this process's own, so that nobody can
// prepare texts with many false finds, and so that the sum of a secret means nothing elsewhere.
const prime = 1<<61 - 1

var (
	base = randomBase()
	salt = randomSalt()
)

func randomBase() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])%(prime-256) + 256
}

func randomSalt() (s [sha256.Size]byte) {
	rand.Read(s[:])
	return s
}

func digestOf(s string) [sha256.Size]byte {
	h := sha256.New()
	h.Write(salt[:])
	h.Write([]byte(s))
	return [sha256.Size]byte(h.Sum(nil))
}

func sumOf(s string) (sum uint64) {
	for i := range len(s) {
		sum = add(multiply(sum, base), uint64(s[i]))
	}
	return sum
}

func power(n int) uint64 {
	p := uint64(1)
	for range n {
		p = multiply(p, base)
	}
	return p
}

func add(a, b uint64) uint64 {
	s := a + b
	if s >= prime {
		s -= prime
	}
	return s
}

func subtract(a, b uint64) uint64 { return add(a, prime-b) }

func multiply(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return add(hi<<3|lo>>61, lo&prime)
}
