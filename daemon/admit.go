package daemon

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wire"
)

// admit authenticates a request and reads what it asks for.
func (d *Daemon) admit(set *settings, req *wire.Request) (dialect.Ask, error) {
	if !realtimePaths[req.Path] {
		return dialect.Ask{}, errNoPath
	}
	if origin, ok := req.Header["Origin"]; ok && !set.originAllowed(origin) {
		return dialect.Ask{}, errBadOrigin
	}
	ask, askErr := dialect.ParseAsk(req.Query, req.Header, req.Subprotocols)
	if !set.authenticate(ask.Credential.Reveal()) {
		return ask, errBadKey
	}
	if askErr != nil {
		return ask, askErr
	}
	if d.sessions.isClosed() {
		return ask, errDraining
	}
	return ask, nil
}

func (set *settings) originAllowed(values []string) bool {
	if len(values) != 1 {
		return false
	}
	for _, o := range set.cfg.AllowedOrigins {
		if o == values[0] {
			return true
		}
	}
	return false
}

// authenticate compares the digest of key with that of every client key, all of them each time.
func (set *settings) authenticate(key string) bool {
	if len(set.clientKeys) == 0 {
		return true
	}
	sum, found := sha256.Sum256([]byte(key)), 0
	for _, k := range set.clientKeys {
		found |= subtle.ConstantTimeCompare(k[:], sum[:])
	}
	return found == 1
}
