package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// Sealed is a secret that waits for its next use: encrypted, so that neither a dump of the memory it lies in nor a
// forgotten print shows it. The key is in this process too; it hides from accidents, not from an attacker who is inside.
type Sealed struct{ box []byte }

// sealer has a key of this process.
var sealer = func() cipher.AEAD {
	var key [32]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the one right length
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm
}()

// Seal returns secret in a form to keep.
func Seal(secret string) Sealed {
	return Sealed{sealer.Seal(nil, nil, []byte(secret), nil)} //nolint:gosec // G407: the cipher makes a random nonce itself
}

// Open returns the secret. Keep it no longer than it is used.
func (s Sealed) Open() string {
	b, err := sealer.Open(nil, nil, s.box, nil)
	if err != nil {
		return "" // the zero Sealed
	}
	return string(b)
}
