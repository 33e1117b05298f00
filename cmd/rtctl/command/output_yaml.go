package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// writeYAML writes what writeJSON would, behind a heading. Strings are as JSON quotes them, so that none can be taken for
// something else, and what is not printable is escaped.
func writeYAML(w io.Writer, heading string, doc any) error {
	var text bytes.Buffer
	if err := newEncoder(&text).Encode(doc); err != nil {
		return err
	}
	y := &yamlWriter{in: json.NewDecoder(&text)}
	y.in.UseNumber()
	if err := y.value("", false); err != nil {
		return err
	}
	_, err := io.WriteString(w, heading+strings.TrimLeft(y.out.String(), " \n")) // in one write: nobody reads half a document
	return err
}

// yamlWriter turns JSON into YAML of the block style, token by token, so that the order of the keys stays.
type yamlWriter struct {
	in  *json.Decoder
	out strings.Builder
}

// value writes the next value behind what its line begins with: a key, or the dash of a list.
func (y *yamlWriter) value(indent string, inList bool) error {
	token, err := y.in.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	switch {
	case !ok:
		y.out.WriteString(" " + yamlScalar(token) + "\n")
		return nil
	case !y.in.More():
		y.out.WriteString(map[json.Delim]string{'{': " {}\n", '[': " []\n"}[open])
	case open == '{':
		err = y.pairs(indent, inList)
	default:
		err = y.items(indent)
	}
	if err != nil {
		return err
	}
	_, err = y.in.Token() // the closing one
	return err
}

// pairs writes a mapping. In a list its first pair stands behind the dash.
func (y *yamlWriter) pairs(indent string, inList bool) error {
	lead := "\n" + indent
	if inList {
		lead = " "
	}
	for y.in.More() {
		key, err := y.in.Token()
		if err != nil {
			return err
		}
		y.out.WriteString(lead + yamlKey(key) + ":")
		if err := y.value(indent+"  ", false); err != nil {
			return err
		}
		lead = indent
	}
	return nil
}

func (y *yamlWriter) items(indent string) error {
	y.out.WriteString("\n")
	for y.in.More() {
		y.out.WriteString(indent + "-")
		if err := y.value(indent+"  ", true); err != nil {
			return err
		}
	}
	return nil
}

var plainKey = regexp.MustCompile(`^[a-z][a-z0-9_]+$`)

// yamlWords mean something else than their letters to one version of YAML or another.
var yamlWords = []string{"yes", "no", "on", "off", "true", "false", "null"}

// yamlKey leaves the words that documents use as they are.
func yamlKey(key json.Token) string {
	name := fmt.Sprint(key)
	if plainKey.MatchString(name) && !slices.Contains(yamlWords, name) {
		return name
	}
	return yamlScalar(key)
}

func yamlScalar(token json.Token) string {
	text, ok := token.(string)
	if !ok {
		if token == nil {
			return "null"
		}
		return fmt.Sprint(token)
	}
	var quoted bytes.Buffer
	_ = newEncoder(&quoted).Encode(text) // a string can always be encoded
	var b strings.Builder
	for _, r := range strings.TrimSuffix(quoted.String(), "\n") {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
