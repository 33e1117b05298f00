package redact

import "strings"

const (
	// minKey is how many characters must follow sk- or ek_; "sk-SK" is a language.
	minKey = 4
	// minInner is how many it takes, a digit among them, where the prefix stands inside a word, as in "disk-usage".
	minInner = 20
	// maxName bounds the name of a query parameter.
	maxName = 64
)

// mayStart marks the bytes at which shapeAt can find something.
var mayStart = [256]bool{'s': true, 'e': true, 'b': true, 'B': true, 'o': true, 'O': true, 'a': true, 'A': true, '?': true, '&': true, '"': true}

// shapeAt returns the part to hide of the credential that begins at t[i]; from == to when none does. Nothing before to
// needs to be looked at again.
func shapeAt(t string, i int) (from, to int) {
	switch t[i] {
	case 's':
		from, to = keyAt(t, i, "sk-")
	case 'e':
		from, to = keyAt(t, i, "ek_")
	case 'b', 'B':
		from, to = bearerAt(t, i)
	case 'o', 'O':
		if n := len("openai-insecure-api-key."); hasPrefixFold(t[i:], "openai-insecure-api-key.") {
			from, to = i+n, run(t, i+n, isTokenEnd)
		}
	case 'a', 'A':
		from, to = headerAt(t, i)
	case '?', '&', '"':
		from, to = parameterAt(t, i+1)
	}
	return from, to
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// run returns the end of the text from i up to the first byte that ends it.
func run(t string, i int, end func(byte) bool) int {
	for i < len(t) && !end(t[i]) {
		i++
	}
	return i
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isKeyEnd takes '*' for part of a key: providers quote a bad one with its middle starred out.
func isKeyEnd(c byte) bool { return !isAlphanumeric(c) && c != '-' && c != '_' && c != '*' }

func isTokenEnd(c byte) bool {
	return c <= ' ' || strings.IndexByte("\"'`\\,;&()[]{}<>", c) >= 0
}

func isValueEnd(c byte) bool { return c <= ' ' || strings.IndexByte("\"'`\\&#<>", c) >= 0 }

func keyAt(t string, i int, prefix string) (from, to int) {
	if !strings.HasPrefix(t[i:], prefix) {
		return i, i
	}
	to = run(t, i+len(prefix), isKeyEnd)
	body := t[i+len(prefix) : to]
	inner := i > 0 && isAlphanumeric(t[i-1])
	if len(body) < minKey || inner && (len(body) < minInner || !strings.ContainsAny(body, "0123456789")) {
		return i, i
	}
	return i, to
}

// schemeWords follow "bearer" where people write about the scheme.
var schemeWords = map[string]bool{
	"token": true, "tokens": true, "auth": true, "authentication": true, "authorization": true, "scheme": true,
	"credential": true, "credentials": true,
}

func bearerAt(t string, i int) (from, to int) {
	if !hasPrefixFold(t[i:], "bearer") {
		return i, i
	}
	word := i + len("bearer")
	from = run(t, word, func(c byte) bool { return c != ' ' && c != '\t' && c != '+' })
	if from == word {
		return i, i
	}
	to = run(t, from, isTokenEnd)
	if schemeWords[strings.ToLower(strings.TrimRight(t[from:to], ".:"))] {
		return i, i
	}
	return from, to
}

// headerAt finds the value behind an api-key header's name, in the forms in which headers are printed.
func headerAt(t string, i int) (from, to int) {
	if !hasPrefixFold(t[i:], "api-key") {
		return i, i
	}
	rest := strings.TrimLeft(t[i+len("api-key"):], `\"`)
	if !strings.HasPrefix(rest, ":") {
		return i, i
	}
	for rest = rest[1:]; rest != "" && strings.IndexByte(` [\"`, rest[0]) >= 0 && !strings.HasPrefix(rest, Placeholder); {
		rest = rest[1:]
	}
	from = len(t) - len(rest)
	return from, run(t, from, isTokenEnd)
}

// parameterAt finds the value of a query parameter whose name starts at t[i] and sounds secret.
func parameterAt(t string, i int) (from, to int) {
	eq := run(t, i, func(c byte) bool { return isKeyEnd(c) && c != '.' && c != '[' && c != ']' })
	if eq == len(t) || t[eq] != '=' || eq-i > maxName || !soundsSecret(t[i:eq]) {
		return i, i
	}
	from = eq + 1
	to = run(t, from, isValueEnd)
	for strings.HasPrefix(t[from:to], Placeholder) {
		from += len(Placeholder)
	}
	return from, to
}

func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "key") || strings.Contains(name, "token") || strings.Contains(name, "secret")
}
