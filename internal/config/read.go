package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile bounds a configuration file in bytes.
const maxFile = 1 << 20

// readYAML fills the configuration from a file's text.
func (l *loader) readYAML(text []byte) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !l.readable(text) {
		return
	}
	doc, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.syntax(err)
		return
	}
	var body ast.Node
	for _, d := range doc.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			l.fault(l.at(d.Body.GetToken()), "", "a second document begins here; a configuration is one")
			return
		}
		body = d.Body
	}
	if body != nil && !l.unsupported("", body, l.at(body.GetToken())) {
		l.mapping(l.file.keys(), "", body, l.at(body.GetToken()))
	}
}

// syntax reports what is no YAML. The parser's own words may quote the file, so only those of its errors that have a
// position are passed on, redacted.
func (l *loader) syntax(err error) {
	o := Origin{File: l.name}
	var message string
	var known yaml.Error
	if errors.As(err, &known) {
		message = known.GetMessage()
		o = l.at(known.GetToken())
	} else {
		message = err.Error() // that of a yaml.Error draws the file, in the square of its length
	}
	if strings.Contains(message, "anchor") || strings.Contains(message, "alias") {
		l.fault(o, "", noReferences)
		return
	}
	l.fault(o, "", "this is not YAML: %s", oneLine(message))
}

func (l *loader) at(t *token.Token) Origin {
	o := Origin{File: l.name}
	if t != nil && t.Position != nil {
		o.Line, o.Column = t.Position.Line, t.Position.Column
	}
	return o
}

// mapping reads one mapping into keys; at is where it is named.
func (l *loader) mapping(keys []key, prefix string, node ast.Node, at Origin) {
	pairs, ok := mappingOf(node)
	if !ok {
		l.wrongType(prefix, at, node, "keys of its own, one of "+strings.Join(names(keys), ", "))
		return
	}
	seen := map[string]int{}
	for _, pair := range pairs {
		name, o, ok := l.keyOf(prefix, pair)
		if !ok {
			continue
		}
		path := join(prefix, name)
		if line := seen[name]; line > 0 {
			l.fault(o, path, "is given twice, first on line %d; keep one", line)
			continue
		}
		seen[name] = max(1, o.Line)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		switch {
		case i < 0 && isReference(pair.Value):
			l.fault(l.at(pair.Value.GetToken()), prefix, noReferences) // that the key is there for nothing else follows from it
			continue
		case i < 0:
			l.unknown(keys, prefix, name, o)
			continue
		}
		l.pair(keys[i], path, pair.Value, o)
	}
}

func mappingOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// keyOf returns the name of a key and where it stands.
func (l *loader) keyOf(prefix string, pair *ast.MappingValueNode) (name string, o Origin, ok bool) {
	if pair.Key == nil {
		l.fault(Origin{File: l.name}, prefix, "a key is missing")
		return "", o, false
	}
	o = l.at(pair.Key.GetToken())
	switch n := pair.Key.(type) {
	case *ast.StringNode:
		return n.Value, o, true
	case *ast.AnchorNode, *ast.AliasNode:
		l.fault(o, prefix, noReferences)
	case *ast.MergeKeyNode:
		l.fault(o, prefix, "merge keys (<<) are not supported; write the keys out")
	default:
		l.fault(o, prefix, "a key that is not plain text; there is none such")
	}
	return "", o, false
}

// unknown reports a key that does not exist, and what was probably meant.
func (l *loader) unknown(keys []key, prefix, name string, o Origin) {
	known := names(keys)
	shown := join(prefix, shownName(name))
	if ref := inlineSecrets[strings.ToLower(name)]; ref != "" && slices.Contains(known, ref+"_env") {
		l.fault(o, shown, "secrets are not written here; put it into an environment variable, a file or a systemd credential, and name that with %s_env, %s_file or %s_credential", ref, ref, ref)
		return
	} else if ref != "" {
		l.fault(o, shown, "there is no such key, and secrets are not written here; name them, where they are used, with …_env, …_file or …_credential")
		return
	}
	if near := nearest(name, known); near != "" {
		l.fault(o, shown, "there is no such key; did you mean %s?", near)
		return
	}
	if home := homeOf(name, l.file.keys(), ""); home != "" && home != prefix {
		l.fault(o, shown, "there is no such key here; it belongs under %s", home)
		return
	}
	l.fault(o, shown, "there is no such key; here are %s", strings.Join(known, ", "))
}

// shownName is a key that somebody wrote, unless it might be a secret or hide what stands around it.
func shownName(name string) string {
	if looksSecret(name) || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "(not repeated)"
	}
	return name
}

// pair reads the value of a known key.
func (l *loader) pair(k key, path string, node ast.Node, at Origin) {
	o := at
	if node != nil {
		o = l.at(node.GetToken())
	}
	l.origins[path] = at
	switch {
	case node == nil || node.Type() == ast.NullType:
		l.fault(at, path, "has no value; give one or leave the key out")
	case l.unsupported(path, node, o):
	case k.scalar != nil && k.scalar.kind.isList():
		l.sequence(k, path, node, at)
	case k.scalar != nil && k.scalar.kind == kindObject:
		l.object(k, path, node, at)
	case k.scalar != nil:
		if v, ok := l.scalarOf(k.scalar.kind, path, node, o); ok {
			l.set(k, path, []string{v}, o)
		}
	case k.list != nil:
		l.items(k, path, node, at)
	default:
		l.mapping(k.keys, path, node, at)
	}
}

// unsupported reports what YAML has and a configuration does without: it would let a value come from where it does not stand.
func (l *loader) unsupported(path string, node ast.Node, o Origin) bool {
	_, tagged := node.(*ast.TagNode)
	switch {
	case isReference(node):
		l.fault(o, path, noReferences)
	case tagged:
		l.fault(o, path, "tags (!…) are not supported; write the value alone")
	default:
		return false
	}
	return true
}

const noReferences = "anchors and aliases are not supported; write the value out"

func isReference(node ast.Node) bool {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return true
	}
	return false
}

// sequence reads a list of scalars.
func (l *loader) sequence(k key, path string, node ast.Node, at Origin) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		l.wrongType(path, at, node, "a list, such as ["+example(k.scalar.kind)+"]")
		return
	}
	if len(seq.Values) == 0 {
		l.fault(at, path, "is an empty list; give a value or leave the key out")
		return
	}
	item := kindText
	if k.scalar.kind == kindIDs {
		item = kindWhole
	}
	k.scalar.clear()
	for i, n := range seq.Values {
		at, path := at, index(path, i)
		if n == nil || n.Type() == ast.NullType {
			l.fault(at, path, "has no value")
			continue
		}
		at = l.at(n.GetToken())
		if l.unsupported(path, n, at) {
			continue
		}
		if v, ok := l.scalarOf(item, path, n, at); ok {
			l.setItem(k, path, v, at)
		}
	}
}

func example(k kind) string {
	if k == kindIDs {
		return "0"
	}
	return "name"
}

// items reads a list of mappings.
func (l *loader) items(k key, path string, node ast.Node, at Origin) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		l.wrongType(path, at, node, "a list; begin each item with a dash")
		return
	}
	for i, n := range seq.Values {
		path, at := index(path, i), at
		k.list.add()
		if n == nil || n.Type() == ast.NullType {
			l.fault(at, path, "has no keys; give them or leave the item out")
			continue
		}
		at = l.at(n.GetToken())
		if pairs, ok := mappingOf(n); ok && len(pairs) > 0 && pairs[0].Key != nil {
			at = l.at(pairs[0].Key.GetToken())
		}
		l.origins[path] = at
		if !l.unsupported(path, n, at) {
			l.mapping(k.list.item(i), path, n, at)
		}
	}
}

// scalarOf returns the text of a value of the right YAML type.
func (l *loader) scalarOf(want kind, path string, node ast.Node, o Origin) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		quoted := n.Token != nil && (n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType)
		if quoted && (want == kindWhole || want == kindNumber || want == kindBool) {
			l.fault(o, path, "is text in quotes where a %s belongs; leave the quotes out", want)
			return "", false
		}
		return n.Value, true
	case *ast.LiteralNode:
		l.fault(o, path, "is a block of text; write the value on the line of its key")
		return "", false
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v := node.GetToken().Value
		if want == kindText || want == kindTime {
			l.fault(o, path, `is no text to YAML; write it in quotes, as "%s"`, v)
			return "", false
		}
		return v, true
	}
	l.wrongType(path, o, node, "a single value ("+string(want)+")")
	return "", false
}

// wrongType reports a value of another shape than belongs to its key.
func (l *loader) wrongType(path string, o Origin, node ast.Node, want string) {
	shape := "a single value"
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		shape = "a group of keys"
	case *ast.SequenceNode:
		shape = "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		shape = "an anchor, alias or tag"
	}
	if path == "" {
		l.fault(o, "", "the file is %s where there should be %s", shape, want)
		return
	}
	l.fault(o, path, "is %s where there should be %s", shape, want)
}
