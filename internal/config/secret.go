package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/rtd-project/rtd/internal/files"
	"github.com/rtd-project/rtd/internal/redact"
)

// maxSecret bounds a secret in bytes, so that a wrong path cannot fill the memory.
const maxSecret = 64 << 10

// credentialsDirectory is where systemd puts what a unit's LoadCredential= names.
const credentialsDirectory = "CREDENTIALS_DIRECTORY"

// Secret says where a secret is: in an environment variable, a file, or a credential that the service manager passes.
// The zero value refers to none.
type Secret struct{ Env, File, Credential string }

// IsSet reports whether s refers to a secret.
func (s Secret) IsSet() bool { return s != Secret{} }

// keys are the keys that fill s; what names the secret for people.
func (s *Secret) keys(prefix, what string) []key {
	const name = `^[A-Za-z_][A-Za-z0-9_]*$`
	return []key{
		{name: prefix + "_env", secret: s, scalar: text(&s.Env).matching(name, "the name of an environment variable; the secret itself is not written here"),
			doc: "Environment variable with " + what + "."},
		{name: prefix + "_file", secret: s, scalar: path(&s.File), doc: "File with " + what + "; a line break at its end does not count."},
		{name: prefix + "_credential", secret: s, scalar: text(&s.Credential).matching(`^[^/]+$`, "the name of a credential, without a slash"),
			doc: "Name of a systemd credential (LoadCredential=) with " + what + "."},
	}
}

// secretSuffixes end the keys that name a secret.
var secretSuffixes = []string{"_env", "_file", "_credential"}

// secretNames say what belongs there.
var secretNames = map[string]string{
	"_env": "the name of the environment variable that holds it", "_file": "the path of the file that holds it",
	"_credential": "the name of the credential that holds it",
}

func (s *Secret) field(suffix string) *string {
	switch suffix {
	case "_env":
		return &s.Env
	case "_file":
		return &s.File
	}
	return &s.Credential
}

// refs lists the references that are given, by the suffixes of their keys.
func (s Secret) refs() []string {
	var list []string
	for _, suffix := range secretSuffixes {
		if *s.field(suffix) != "" {
			list = append(list, suffix)
		}
	}
	return list
}

func cutSecretSuffix(path string) (base, suffix string) {
	for _, suffix := range secretSuffixes {
		if base, ok := strings.CutSuffix(path, suffix); ok {
			return base, suffix
		}
	}
	return path, ""
}

// Resolve reads the secret; "" when s refers to none. Its errors say where it looked and never what it found.
func (s Secret) Resolve(getenv func(string) string) (string, error) {
	switch {
	case s.Env != "":
		v := getenv(s.Env)
		if v == "" {
			return "", fmt.Errorf("the environment variable %s is not set", s.Env)
		}
		return v, nil
	case s.File != "":
		return readSecret(s.File)
	case s.Credential != "":
		dir := getenv(credentialsDirectory)
		if dir == "" {
			return "", fmt.Errorf("there are no credentials: %s is not set; is there LoadCredential=%s in the unit?", credentialsDirectory, s.Credential)
		}
		return readSecret(filepath.Join(dir, s.Credential))
	}
	return "", nil
}

func readSecret(name string) (string, error) {
	b, err := files.Read(name, maxSecret)
	if err != nil {
		return "", err
	}
	v := strings.TrimRight(string(b), "\r\n")
	if v == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return v, nil
}

// Path is the file that the secret is read from, "" when it is in no file.
func (s Secret) Path(getenv func(string) string) string {
	if s.Credential != "" {
		return filepath.Join(getenv(credentialsDirectory), s.Credential)
	}
	return s.File
}

var redactor = redact.New()

// looksSecret reports whether a value has the shape of a credential.
func looksSecret(v string) bool { return redactor.String(v) != v }

// inlineSecrets are keys that people try, and the prefix of those that are meant.
var inlineSecrets = map[string]string{
	"api_key": "api_key", "apikey": "api_key", "token": "api_key", "credential": "api_key", "password": "api_key",
	"key": "key", "secret": "secret", "value": "value",
}

// checkURL refuses what can be no upstream, and any place in it for a credential.
func checkURL(v string) error {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "":
		return errors.New("is not a URL such as wss://host/v1")
	case u.Scheme != "ws" && u.Scheme != "wss" && u.Scheme != "http" && u.Scheme != "https":
		return errors.New("does not begin with ws://, wss://, http:// or https://")
	case u.User != nil:
		return errors.New("holds a user or password; name the API key with api_key_env, api_key_file or api_key_credential")
	case u.Fragment != "":
		return errors.New("holds a #, which means nothing here")
	}
	return nil
}
