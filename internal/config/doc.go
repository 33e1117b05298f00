// Package config is the configuration of rtd as people write it: one strict YAML file, environment variables over it,
// flags over those.
//
// Load reports every fault at once, each with the place it stands at, and with what would be right. What it returns has
// passed every check that needs no network; what it names on this host, its secrets and certificates, is judged too where
// the caller asks. Secrets are not part of it: it holds references, which are followed when somebody needs the secret. The
// same description of the keys (keys.go) reads the file and renders the JSON Schema, the reference page and the effective
// values, so that none of them can say something else.
//
// Values in messages are redacted, and what looks like a secret where none belongs is not repeated.
package config
