package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// TokenPrefix begins every token. No provider's credential begins so, and what does is never sent upstream.
const TokenPrefix = "ek_rtd_"

const (
	// skew is how far the clocks of the instances that share a secret may be apart.
	skew = 30 * time.Second
	// maxToken bounds a token in characters.
	maxToken = 2 << 10
	// MaxUses bounds how many sessions one token may open.
	MaxUses = 1000

	maxClaim = 256 // bytes of a model's name or an origin
)

type tokenID [12]byte

// claims is what a token says. The encoded form is signed, so its fields can be trusted once that was checked.
type claims struct {
	ID     []byte `json:"i"`           // a tokenID
	Key    string `json:"k,omitempty"` // name
	Mark   []byte `json:"d,omitempty"` // of the key's digest: a key with another secret is another key
	Model  string `json:"m"`
	Preset string `json:"p,omitempty"`
	Origin string `json:"o,omitempty"`
	Uses   uint32 `json:"u"`
	Issued int64  `json:"n"` // unix seconds
	Ends   int64  `json:"e"`
}

var errTokenLong = errors.New("the model, the preset and the origin are too long together; shorten one")

// signer makes and reads tokens: "ek_rtd_" and, in unpadded URL-safe base64, a MAC and what it signs. All of it is legal
// in a subprotocol's name, and one run of characters, so that it is redacted as a whole.
type signer struct{ secret []byte }

// The labels keep what is signed for one purpose from being taken for another.
const (
	labelToken = "rtd client token v1\x00" //nolint:gosec // G101: no secret
	labelMark  = "rtd client key mark v1\x00"
)

func (s signer) mac(label string, data []byte) []byte {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(label))
	m.Write(data)
	return m.Sum(nil)
}

// mark names a key's digest to whoever has the secret, and tells nobody else anything about the key.
func (s signer) mark(d Digest) []byte { return s.mac(labelMark, d[:])[:8] }

func (s signer) sign(c claims) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	token := TokenPrefix + base64.RawURLEncoding.EncodeToString(append(s.mac(labelToken, payload), payload...))
	if len(token) > maxToken {
		return "", errTokenLong
	}
	return token, nil
}

// read returns what a token says if it was signed with the secret.
func (s signer) read(token string) (c claims, ok bool) {
	body, ok := strings.CutPrefix(token, TokenPrefix)
	if !ok || len(token) > maxToken || strings.ContainsAny(body, "\r\n") { // the decoder would pass over these
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(raw) < sha256.Size {
		return c, false
	}
	payload := raw[sha256.Size:]
	if !hmac.Equal(raw[:sha256.Size], s.mac(labelToken, payload)) {
		return c, false
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields() // a claim of a later version would bind the token to what is not checked here
	return c, d.Decode(&c) == nil && len(c.ID) == len(tokenID{})
}

func (c claims) issued() time.Time { return time.Unix(c.Issued, 0) }
func (c claims) ends() time.Time   { return time.Unix(c.Ends, 0) }

// timely judges a token's time; most is the longest life that may be.
func (c claims) timely(now time.Time, most time.Duration) Reason {
	switch {
	case now.After(c.ends().Add(skew)):
		return ReasonTokenExpired
	case c.issued().After(now.Add(skew)) || c.ends().Sub(c.issued()) > most:
		return ReasonTokenInvalid
	}
	return granted
}

func newTokenID() []byte {
	id := make([]byte, len(tokenID{}))
	rand.Read(id) // never fails
	return id
}
