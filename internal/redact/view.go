package redact

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// view is a text as one of its readers would decode it, and where each of its bytes came from.
type view struct {
	text string
	// pos[i] is the offset in the original of text[i], pos[len(text)] the original's length; nil when they are the same.
	pos []int
}

func (v view) add(spans []span, from, to int) []span {
	if v.pos != nil {
		from, to = v.pos[from], v.pos[to]
	}
	return append(spans, span{from, to})
}

// findSecret adds every occurrence, overlapping ones too.
func (v view) findSecret(spans []span, secret string) []span {
	for at := 0; ; at++ {
		i := strings.Index(v.text[at:], secret)
		if i < 0 {
			return spans
		}
		at += i
		spans = v.add(spans, at, at+len(secret))
	}
}

func (v view) findShapes(spans []span) []span {
	next := 0
	if from, to := parameterAt(v.text, 0); from < to {
		spans = v.add(spans, from, to)
		next = to
	}
	for i := next; i < len(v.text); i++ {
		if !mayStart[v.text[i]] {
			continue
		}
		if from, to := shapeAt(v.text, i); from < to {
			spans = v.add(spans, from, to)
			i = to - 1
		}
	}
	return spans
}

// decodings returns v in every decoded form that differs from it.
func (v view) decodings() []view {
	if strings.IndexByte(v.text, '\\') < 0 && strings.IndexByte(v.text, '%') < 0 {
		return nil
	}
	list := []view{v}
	if strings.IndexByte(v.text, '\\') >= 0 {
		list = append(list, v.decode('\\', unbackslash))
	}
	for _, v := range slices.Clone(list) {
		for range 2 { // a URL inside a URL is encoded twice
			if strings.IndexByte(v.text, '%') < 0 {
				break
			}
			v = v.decode('%', unpercent)
			list = append(list, v)
		}
	}
	return list[1:]
}

// decode replaces each escape that starts with mark by what one returns for it; n is 0 for what is no escape.
func (v view) decode(mark byte, one func(s string) (decoded string, n int)) view {
	var text strings.Builder
	pos := make([]int, 0, len(v.text)+1)
	for i := 0; i < len(v.text); {
		decoded, n := v.text[i:i+1], 1
		if v.text[i] == mark {
			if d, used := one(v.text[i:]); used > 0 {
				decoded, n = d, used
			}
		}
		text.WriteString(decoded)
		for range len(decoded) {
			pos = append(pos, v.origin(i))
		}
		i += n
	}
	return view{text.String(), append(pos, v.origin(len(v.text)))}
}

func (v view) origin(i int) int {
	if v.pos == nil {
		return i
	}
	return v.pos[i]
}

func unpercent(s string) (string, int) {
	if c, ok := hex(s, 1, 2); ok {
		return string([]byte{byte(c)}), 3
	}
	return "", 0
}

// unbackslash resolves the escapes of JSON strings and of strconv.Quote.
func unbackslash(s string) (string, int) {
	if len(s) < 2 {
		return "", 0
	}
	switch s[1] {
	case '"', '\\', '/', '\'':
		return s[1:2], 2
	case 'a', 'b', 'f', 'n', 'r', 't', 'v':
		return " ", 2
	case 'x':
		if c, ok := hex(s, 2, 2); ok {
			return string([]byte{byte(c)}), 4
		}
	case 'u':
		if c, ok := hex(s, 2, 4); ok {
			return string(utf8.AppendRune(nil, c)), 6
		}
	}
	return "", 0
}

// hex reads n hexadecimal digits of s at offset at.
func hex(s string, at, n int) (v rune, ok bool) {
	if len(s) < at+n {
		return 0, false
	}
	for _, c := range []byte(s[at : at+n]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}
