package config

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/rtd-project/rtd/internal/files"
)

// checkHost reads what the configuration names on this host, and reports what rtd could not use. It is silent about keys
// that have a fault already.
func (l *loader) checkHost(c *Config) {
	_, err := c.GroupID()
	l.found(err, "control.group")
	for i, u := range l.file.Upstreams {
		path := index("upstreams", i)
		l.checkSecret(c, path+".api_key", u.APIKey, APIKey)
		_, err := c.Authorities(path+".tls.ca_file", u.TLS.CAFile)
		l.found(err, path+".tls.ca_file")
		l.checkKeyPair(c, path+".tls", u.TLS.CertFile, u.TLS.KeyFile)
	}
	l.checkClientKeys(c)
	l.checkSecret(c, "clients.tokens.secret", l.file.Clients.Tokens.Secret, TokenSecret)
	for i, h := range l.file.Traces.Headers {
		l.checkSecret(c, index("traces.headers", i)+".value", h.Value, HeaderValue)
	}
	_, err = c.Authorities("traces.ca_file", l.file.Traces.CAFile)
	l.found(err, "traces.ca_file")
	t, control := l.file.TLS, l.file.Control.TLS
	l.checkListener(c, "tls", t.CertFile, t.KeyFile, t.ClientCAFile)
	l.checkListener(c, "control.tls", control.CertFile, control.KeyFile, control.ClientCAFile)
}

// checkClientKeys reads the keys of clients, each of which must be another: whose limits hold would be chance.
func (l *loader) checkClientKeys(c *Config) {
	known := map[string]int{}
	for i, k := range l.file.Clients.Keys {
		path, digest := index("clients.keys", i), k.SHA256
		if v := l.checkSecret(c, path+".key", k.Key, ClientKey); v != "" {
			digest = fmt.Sprintf("%x", sha256.Sum256([]byte(v)))
		}
		if digest == "" || l.isBad(path) {
			continue
		}
		if j, ok := known[digest]; ok {
			l.faultAt(path, "is the same key as clients.keys[%d]; remove one, or give it another", j)
			continue
		}
		known[digest] = i
	}
}

// checkListener reads the files by which a listener proves itself, and asks its clients to.
func (l *loader) checkListener(c *Config, prefix, cert, key, ca string) {
	l.checkKeyPair(c, prefix, cert, key)
	_, err := c.Authorities(prefix+".client_ca_file", ca)
	l.found(err, prefix+".client_ca_file")
}

// found takes in what is wrong with what some keys name, unless one of them is known to be wrong itself.
func (l *loader) found(err error, keys ...string) {
	if err != nil && !l.isBad(keys...) {
		l.faults = append(l.faults, AllFaults(err)...)
	}
}

// checkSecret returns the secret, "" where there is none or one that is bad.
func (l *loader) checkSecret(c *Config, prefix string, s Secret, check func(string) error) string {
	v, err := c.Secret(prefix, s, check)
	l.found(err, prefix+"_env", prefix+"_file", prefix+"_credential")
	return v
}

// checkKeyPair reads a pair of which each half has its own faults. A certificate whose time has not come, or is over, is
// one of which to warn.
func (l *loader) checkKeyPair(c *Config, prefix, cert, key string) {
	certKey, keyKey := prefix+".cert_file", prefix+".key_file"
	if cert == "" || key == "" || l.isBad(certKey, keyKey) {
		return
	}
	pair, certErr, keyErr := files.KeyPair(cert, key)
	if certErr != nil {
		l.faultAt(certKey, "%s", oneLine(certErr.Error()))
	}
	if keyErr != nil {
		l.faultAt(keyKey, "%s", oneLine(keyErr.Error()))
	}
	if pair == nil {
		return
	}
	if warning := files.Untimely(pair.Leaf, time.Now()); warning != "" {
		c.Warnings = append(c.Warnings, c.Fault(certKey, "%s: %s", cert, warning))
	}
}

// Secret reads the secret that s, the key's value, refers to, and applies check to it; prefix is the key without _env,
// _file or _credential. "": s refers to none. The error is a Fault.
func (c *Config) Secret(prefix string, s Secret, check func(string) error) (string, error) {
	v, err := s.Resolve(c.getenv)
	if err == nil && v != "" {
		err = check(v)
	}
	if err != nil {
		return "", c.Fault(prefix+s.refs()[0], "%s", oneLine(err.Error()))
	}
	return v, nil
}

// SecretPath is the file that s is read from, "" when it is in no file.
func (c *Config) SecretPath(s Secret) string { return s.Path(c.getenv) }

// Authorities reads the certificates in the file that a key names; nil, the system's, for no file. The error is a Fault.
func (c *Config) Authorities(key, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pool, err := files.Authorities(file)
	if err != nil {
		return nil, c.Fault(key, "%s", oneLine(err.Error()))
	}
	return pool, nil
}

// GroupID is the number of the control socket's group, 0 for the default. The error is a Fault.
func (c *Config) GroupID() (int, error) {
	name := c.Control.Group
	if name == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, c.Fault("control.group", "there is no group %s; make it, or name another", quote(name))
	}
	n, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, c.Fault("control.group", "the group %s has no number; name another", quote(name))
	}
	return n, nil
}

// The checks of secrets. Their errors tell nothing of the secret.

// ClientKey refuses a key that no client could ever present: those with white space or other than ASCII are refused as they
// come in, and those that look like a token are read as one.
func ClientKey(key string) error {
	switch {
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("the key holds white space, a control character or one that is not ASCII, so no client could present it; give it without")
	case len(key) >= len(tokenPrefix) && strings.EqualFold(key[:len(tokenPrefix)], tokenPrefix):
		return errors.New("the key begins with " + tokenPrefix + ", as the tokens that rtd mints do, and would be taken for one; give another")
	}
	return nil
}

const tokenPrefix = "ek_rtd_"

// APIKey refuses a key that no header carries as it is.
func APIKey(key string) error {
	if strings.HasPrefix(key, "\ufeff") {
		return errors.New("the key begins with a byte order mark, as some editors put it before a text; take it off")
	}
	return inHeader("key", key)
}

// HeaderValue refuses a value that no header carries as it is.
func HeaderValue(v string) error { return inHeader("value", v) }

func inHeader(what, v string) error {
	if strings.TrimSpace(v) != v || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("the " + what + " holds a control character, or white space at its beginning or end, which no header would carry; give it without")
	}
	return nil
}

// minTokenSecret is the least length of the secret that signs tokens, in bytes.
const minTokenSecret = 32

// TokenSecret refuses a secret that could be guessed.
func TokenSecret(secret string) error {
	if n := len(secret); n < minTokenSecret {
		return fmt.Errorf("the secret has %d bytes; give at least %d random ones", n, minTokenSecret)
	}
	return nil
}
