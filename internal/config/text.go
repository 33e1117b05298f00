package config

import (
	"bytes"
	"unicode/utf8"
)

// maxDepth bounds how deep brackets and indented blocks may be nested: the parser's memory grows with the square of it. A
// configuration needs seven.
const maxDepth = 64

// readable reports a text that the parser should not see: it would read it as something else, or spend gigabytes on it.
func (l *loader) readable(text []byte) bool {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		l.fault(l.place(text, i), "", "there is a NUL byte; a configuration is plain text")
		return false
	}
	if i := invalidUTF8(text); i >= 0 {
		l.fault(l.place(text, i), "", "there is a byte that is no UTF-8; save the file in UTF-8")
		return false
	}
	if i := tooDeep(text); i >= 0 {
		l.fault(l.place(text, i), "", "brackets or blocks are nested more than %d deep; a configuration needs a few levels", maxDepth)
		return false
	}
	return true
}

// place is where the byte at i stands.
func (l *loader) place(text []byte, i int) Origin {
	before := text[:i]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return Origin{File: l.name, Line: bytes.Count(before, []byte("\n")) + 1, Column: utf8.RuneCount(line) + 1}
}

// invalidUTF8 returns where text stops being UTF-8, -1 for nowhere.
func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// nesting counts what is open in a YAML text. It knows quotes and comments, and what it takes for more than it is, such as
// the lines of a block of text, is far from the bound.
type nesting struct {
	blocks []int // columns in which the open blocks begin
	flow   int   // open brackets
	quote  byte  // of the text that is open, 0 for none
}

// tooDeep returns where text is nested too deep, -1 for nowhere.
func tooDeep(text []byte) int {
	var n nesting
	for at := 0; at < len(text); {
		end := bytes.IndexAny(text[at:], "\r\n")
		if end < 0 {
			end = len(text) - at
		}
		if i := n.line(text[at : at+end]); i >= 0 {
			return at + i
		}
		at += end + 1
	}
	return -1
}

// line takes in one line, and returns where in it the bound is passed, -1 for nowhere.
func (n *nesting) line(line []byte) int {
	if n.quote == 0 && n.flow == 0 {
		if i := n.indent(line); i >= 0 {
			return i
		}
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case n.quote == '"' && c == '\\', n.quote == '\'' && bytes.HasPrefix(line[i:], []byte("''")):
			i++ // an escape
		case n.quote != 0:
			if c == n.quote {
				n.quote = 0
			}
		case c == '#' && (i == 0 || isBlank(line[i-1])):
			return -1
		case (c == '"' || c == '\'') && beginsValue(line[:i]):
			n.quote = c
		case (c == '[' || c == '{') && (n.flow > 0 || beginsValue(line[:i])):
			if n.flow++; n.flow+len(n.blocks) > maxDepth {
				return i
			}
		case c == ']' || c == '}':
			n.flow = max(0, n.flow-1)
		}
	}
	return -1
}

// indent opens and closes the blocks of a line that begins in none but blocks. Each dash opens one too.
func (n *nesting) indent(line []byte) int {
	for i := 0; ; i++ {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) || line[i] == '#' {
			return -1
		}
		for len(n.blocks) > 0 && n.blocks[len(n.blocks)-1] >= i {
			n.blocks = n.blocks[:len(n.blocks)-1]
		}
		if n.blocks = append(n.blocks, i); len(n.blocks) > maxDepth {
			return i
		}
		mark := line[i] == '-' || line[i] == '?'
		if !mark || i+1 < len(line) && !isBlank(line[i+1]) {
			return -1
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// beginsValue reports whether a value begins behind what stands before it on its line.
func beginsValue(before []byte) bool {
	before = bytes.TrimRight(before, " \t")
	return len(before) == 0 || bytes.IndexByte([]byte("[{,:-?"), before[len(before)-1]) >= 0
}
