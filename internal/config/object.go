package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// jsonObject is a JSON object of most bytes at most, whose keys are not rtd's. In a file it is written as YAML.
func jsonObject(p *[]byte, most int) *scalar {
	return &scalar{
		kind: kindObject,
		get:  func() string { return string(*p) },
		set: func(v string) error {
			var members map[string]json.RawMessage
			if err := json.Unmarshal([]byte(v), &members); err != nil || members == nil {
				return errors.New("is not a JSON object")
			}
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(v)); err != nil {
				return err
			}
			switch {
			case len(members) == 0:
				return errors.New("is empty; give it at least one key")
			case b.Len() > most:
				return fmt.Errorf("has %d bytes as JSON; %d are the most", b.Len(), most)
			}
			*p = b.Bytes()
			return nil
		},
	}
}

// object reads a mapping of any keys as JSON, in the order of the file.
func (l *loader) object(k key, path string, node ast.Node, at Origin) {
	if _, ok := mappingOf(node); !ok {
		l.wrongType(path, at, node, "a group of keys")
		return
	}
	var b bytes.Buffer
	before := len(l.faults)
	l.asJSON(&b, path, node, at)
	if len(l.faults) == before {
		l.set(k, path, []string{b.String()}, at)
	}
}

// asJSON appends what a YAML value is in JSON, or reports why it is nothing there.
func (l *loader) asJSON(b *bytes.Buffer, path string, node ast.Node, at Origin) {
	if node == nil || node.GetToken() == nil || node.Type() == ast.NullType && node.GetToken().Type != token.NullType {
		l.fault(at, path, "has no value; write null if that is meant")
		return
	}
	if _, ok := mappingOf(node); !ok {
		at = l.at(node.GetToken())
	}
	if l.unsupported(path, node, at) {
		return
	}
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		l.membersAsJSON(b, path, node)
	case *ast.SequenceNode:
		l.itemsAsJSON(b, path, n, at)
	case *ast.StringNode:
		if n.Token.Type == token.StringType && json.Valid([]byte(n.Value)) {
			b.WriteString(n.Value) // a number that is beyond YAML's
			return
		}
		l.textAsJSON(b, path, n.Value, at)
	case *ast.LiteralNode:
		l.textAsJSON(b, path, n.Value.Value, at)
	case *ast.NullNode:
		b.WriteString("null")
	case *ast.BoolNode:
		fmt.Fprintf(b, "%t", n.Value)
	default:
		l.numberAsJSON(b, path, node.GetToken().Value, at)
	}
}

func (l *loader) membersAsJSON(b *bytes.Buffer, prefix string, node ast.Node) {
	pairs, _ := mappingOf(node)
	seen := map[string]int{}
	b.WriteByte('{')
	for i, pair := range pairs {
		if _, isScalar := pair.Key.(ast.ScalarNode); isScalar && pair.Key.Type() != ast.StringType && pair.Key.Type() != ast.MergeKeyType {
			l.fault(l.at(pair.Key.GetToken()), prefix, "a key is no text to YAML; write it in quotes")
			continue
		}
		name, at, ok := l.keyOf(prefix, pair)
		if !ok {
			continue
		}
		path := join(prefix, shownName(name))
		if line := seen[name]; line > 0 {
			l.fault(at, path, "is given twice, first on line %d; keep one", line)
			continue
		}
		seen[name] = max(1, at.Line)
		if i > 0 {
			b.WriteByte(',')
		}
		l.textAsJSON(b, path, name, at)
		b.WriteByte(':')
		l.asJSON(b, path, pair.Value, at)
	}
	b.WriteByte('}')
}

func (l *loader) itemsAsJSON(b *bytes.Buffer, path string, seq *ast.SequenceNode, at Origin) {
	b.WriteByte('[')
	for i, item := range seq.Values {
		if i > 0 {
			b.WriteByte(',')
		}
		l.asJSON(b, index(path, i), item, at)
	}
	b.WriteByte(']')
}

func (l *loader) textAsJSON(b *bytes.Buffer, path, v string, at Origin) {
	if looksSecret(v) {
		l.fault(at, path, "looks like a secret, which does not belong here: it would be sent, and shown, with every session")
		return
	}
	text, err := marshal(v)
	if err != nil {
		l.fault(at, path, "is no text to JSON")
		return
	}
	b.Write(text)
}

// numberAsJSON takes a number as it is written, since the provider reads JSON: what only YAML knows is refused.
func (l *loader) numberAsJSON(b *bytes.Buffer, path, v string, at Origin) {
	if !json.Valid([]byte(v)) {
		l.fault(at, path, "%s is no number to JSON; write one such as 24000 or 0.8, or a text in quotes", quote(v))
		return
	}
	b.WriteString(v)
}
