package daemon

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rtd-project/rtd/internal/auth"
	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/redact"
	"github.com/rtd-project/rtd/internal/trace"
	"github.com/rtd-project/rtd/internal/wire"
)

// admission is what a client was let in with, from admit to the end of its session.
type admission struct {
	key       string         // name of its key, "" for none
	own       bool           // its own credential goes upstream
	requestID string         // its X-Request-Id, "" for none that is given back; to be redacted where others read it
	subject   string         // of its certificate, "" for none
	hidden    *redact.Hidden // its credential, until the last log line
	grant     *auth.Grant
	trace     *trace.Session // nil: not traced

	limits   *limits // nil: not counted
	released atomic.Bool
}

// receive begins the admission of a request: from here to the last log line its credential is hidden.
func (d *Daemon) receive(req *wire.Request) *admission {
	a := &admission{hidden: d.redact.Hide(credentialOf(req))}
	a.requestID = requestID(req)
	return a
}

func credentialOf(req *wire.Request) string {
	return dialect.ClientCredential(req.Query, req.Header, req.Subprotocols).Reveal()
}

// identify says who sent a request.
func (set *settings) identify(req *wire.Request, now time.Time) (auth.Identity, error) {
	credential := dialect.ClientCredential(req.Query, req.Header, req.Subprotocols)
	if err := credential.Check(); err != nil {
		return auth.Identity{}, err
	}
	return set.auth.Identify(credential.Reveal(), now)
}

// identifyFor is identify for a session: its route may take a client secret of the provider, which then goes upstream.
func (set *settings) identifyFor(req *wire.Request, ask dialect.Ask, now time.Time) (auth.Identity, error) {
	if !ask.Credential.IsClientSecret() || ask.Credential.Check() != nil {
		return set.identify(req, now)
	}
	if r, _, err := set.routes.find(ask); err == nil && r.clientSecrets {
		return set.auth.IdentifyOwn(ask.Credential.Reveal(), now)
	}
	who, err := set.identify(req, now)
	if denied, ok := errors.AsType[*auth.DeniedError](err); ok && denied.Reason == auth.ReasonUnknownKey {
		err = errors.Join(errClientSecret, err)
	}
	return who, err
}

// admit authenticates a request, reads what it asks for and counts s against every limit. On success s holds what
// release gives back.
func (d *Daemon) admit(set *settings, s *session, req *wire.Request) (dialect.Ask, error) {
	if !realtimePaths[req.Path] {
		return dialect.Ask{}, errNoPath
	}
	origin, err := set.origin(req)
	if err != nil {
		return dialect.Ask{}, err
	}
	now := time.Now()
	ask, badAsk := dialect.ParseAsk(req.Query, req.Header, req.Subprotocols)
	who, err := set.identifyFor(req, ask, now)
	if err != nil {
		return dialect.Ask{}, err
	}
	s.key, s.own = who.KeyName(), who.PassThrough()
	if s.own && len(credentialOf(req)) > maxOwnCredential {
		return dialect.Ask{}, errOwnTooLong
	}
	if badAsk != nil {
		return ask, badAsk
	}
	if tellsSecret(ask) {
		return ask, errMisplaced
	}
	if d.sessions.isClosed() {
		return ask, errDraining
	}
	ask.Preset = cmp.Or(ask.Preset, who.Preset())
	want := auth.Admission{Origin: origin, Preset: ask.Preset}
	if ask.CallID == "" && ask.Intent == "" { // beside those, a model only picks the route
		want.Model = ask.Model
	}
	if s.grant, err = set.auth.Admit(who, want, now); err != nil {
		return ask, err
	}
	if err := d.limits.admit(&set.cfg); err != nil {
		return ask, err
	}
	s.limits = d.limits
	return ask, nil
}

// tellsSecret reports whether what goes to the provider beside the credential holds a token of the gateway's, or what the client
// was let in with.
func tellsSecret(ask dialect.Ask) bool {
	own := ask.Credential.Reveal()
	tells := func(v string) bool {
		return strings.Contains(strings.ToLower(v), auth.TokenPrefix) || len(own) >= redact.MinSecret && strings.Contains(v, own)
	}
	for _, values := range []map[string][]string{ask.ExtraQuery, ask.Header} {
		for name, list := range values {
			if tells(name) || slices.ContainsFunc(list, tells) {
				return true
			}
		}
	}
	return tells(ask.CallID)
}

// maxRequestID bounds an X-Request-Id in bytes.
const maxRequestID = 128

// shapes knows no secret, only what credentials look like.
var shapes = redact.New()

// requestID returns the client's name for its request, if it is harmless wherever it is printed. Whether it is given back
// must not depend on what the client does not know: that would tell it whether a guess at a secret is right.
func requestID(req *wire.Request) string {
	values := req.Header["X-Request-Id"]
	if len(values) != 1 || len(values[0]) > maxRequestID || shapes.String(values[0]) != values[0] {
		return ""
	}
	if own := credentialOf(req); len(own) >= redact.MinSecret && strings.Contains(values[0], own) {
		return "" // it would stand in the logs of every proxy on the way
	}
	for _, c := range []byte(values[0]) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("-_.:/+=@", c) < 0 {
			return ""
		}
	}
	return strings.Clone(values[0])
}

// origin returns a request's one Origin, "" when it has none, or refuses one that is not listed.
func (set *settings) origin(req *wire.Request) (string, error) {
	values, ok := req.Header["Origin"]
	if !ok {
		return "", nil
	}
	if len(values) != 1 || !slices.Contains(set.cfg.AllowedOrigins, values[0]) {
		return "", errBadOrigin
	}
	return values[0], nil
}

// release gives back what admit counted, once. opened says that there was a session.
func (a *admission) release(opened bool) {
	if !a.released.CompareAndSwap(false, true) {
		return
	}
	if a.grant != nil {
		a.grant.Release(opened)
	}
	if a.limits != nil {
		a.limits.release()
	}
}
