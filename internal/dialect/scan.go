package dialect

import "bytes"

// cursor reads JSON forward from bytes that may be cut off at the end. Its methods skip white space first and report
// false when the bytes end, or are not what was asked for; they never allocate. Nothing is validated beyond what finding
// the next token takes.
type cursor struct {
	b []byte
	i int
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// peek returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) && isSpace(c.b[c.i]) {
		c.i++
	}
	if c.i == len(c.b) {
		return 0
	}
	return c.b[c.i]
}

func (c *cursor) take(ch byte) bool {
	if c.peek() != ch {
		return false
	}
	c.i++
	return true
}

// str reads a string and returns what is between its quotes, escapes unresolved.
func (c *cursor) str() (raw []byte, ok bool) {
	if !c.take('"') {
		return nil, false
	}
	start := c.i
	for {
		n := bytes.IndexByte(c.b[c.i:], '"')
		if n < 0 {
			c.i = len(c.b)
			return nil, false
		}
		c.i += n + 1
		if backslashes(c.b[start:c.i-1])%2 == 0 {
			return c.b[start : c.i-1], true
		}
	}
}

// backslashes returns the length of the run of backslashes that ends b.
func backslashes(b []byte) int {
	n := len(b)
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return len(b) - n
}

// key reads an object's key and the colon behind it.
func (c *cursor) key() (raw []byte, ok bool) {
	raw, ok = c.str()
	return raw, ok && c.take(':')
}

// scalar reads a number or a literal. One that reaches the end of the bytes may have been cut and is not returned.
func (c *cursor) scalar() (raw []byte, ok bool) {
	c.peek()
	start := c.i
	for ; c.i < len(c.b); c.i++ {
		switch ch := c.b[c.i]; {
		case ch == ',' || ch == '}' || ch == ']' || isSpace(ch):
			return c.b[start:c.i], c.i > start
		case ch == '"' || ch == '{' || ch == '[' || ch == ':':
			return nil, false
		}
	}
	return nil, false
}

// skip reads any one value.
func (c *cursor) skip() bool {
	switch c.peek() {
	case '"':
		_, ok := c.str()
		return ok
	case '{', '[':
		return c.skipNested()
	default:
		_, ok := c.scalar()
		return ok
	}
}

// skipNested reads an object or array. It counts brackets instead of recursing: depth is the sender's to choose.
func (c *cursor) skipNested() bool {
	for depth := 0; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			if _, ok := c.str(); !ok {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				c.i++
				return true
			}
		}
		c.i++
	}
	return false
}

// object reads an object and calls member with each key; member must read the value. It reports whether the object's
// end was reached, so false means that what was read may be incomplete.
func (c *cursor) object(member func(key []byte) bool) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	for {
		key, ok := c.key()
		if !ok || !member(key) {
			return false
		}
		if !c.take(',') {
			return c.take('}')
		}
	}
}

// backCursor reads JSON backward from the end of a message whose beginning may be missing. In valid JSON this is exact:
// the last byte is the root's closing brace, and within a string every quote has a backslash before it while the quote
// that opens one never has.
type backCursor struct {
	b []byte // what is still to be read
}

func (c *backCursor) peek() byte {
	for len(c.b) > 0 && isSpace(c.b[len(c.b)-1]) {
		c.b = c.b[:len(c.b)-1]
	}
	if len(c.b) == 0 {
		return 0
	}
	return c.b[len(c.b)-1]
}

func (c *backCursor) take(ch byte) bool {
	if c.peek() != ch {
		return false
	}
	c.b = c.b[:len(c.b)-1]
	return true
}

// str reads a string. A quote at the very beginning of the bytes does not count: its backslash may be missing.
func (c *backCursor) str() (raw []byte, ok bool) {
	if !c.take('"') {
		return nil, false
	}
	end := len(c.b)
	for {
		open := bytes.LastIndexByte(c.b, '"')
		if open <= 0 {
			c.b = nil
			return nil, false
		}
		escaped := c.b[open-1] == '\\'
		if !escaped {
			raw = c.b[open+1 : end]
			c.b = c.b[:open]
			return raw, true
		}
		c.b = c.b[:open]
	}
}

// skip reads any one value that is entirely in hand.
func (c *backCursor) skip() bool {
	switch c.peek() {
	case '"':
		_, ok := c.str()
		return ok
	case '}', ']':
		return c.skipNested()
	}
	for len(c.b) > 0 {
		switch ch := c.b[len(c.b)-1]; {
		case ch == ':' || ch == ',' || ch == '[' || isSpace(ch):
			return true
		case ch == '"' || ch == '{' || ch == '}' || ch == ']':
			return false
		}
		c.b = c.b[:len(c.b)-1]
	}
	return false
}

func (c *backCursor) skipNested() bool {
	for depth := 0; ; {
		ch := c.peek()
		switch ch {
		case 0:
			return false
		case '"':
			if _, ok := c.str(); !ok {
				return false
			}
			continue
		case '}', ']':
			depth++
		case '{', '[':
			depth--
		}
		c.b = c.b[:len(c.b)-1]
		if depth == 0 {
			return true
		}
	}
}

// member reads one member of an object, whose end or the comma behind it was read before. value runs from the member's
// value up to and including that byte, so that reading it forward meets its end.
func (c *backCursor) member() (key, value []byte, ok bool) {
	whole := c.b
	if !c.skip() {
		return nil, nil, false
	}
	value = whole[len(c.b) : len(whole)+1]
	if !c.take(':') {
		return nil, nil, false
	}
	key, ok = c.str()
	return key, value, ok
}

// findString returns the string value of the root object's member name, by reading head forward and tail backward. nil
// when it is in neither, or not a string. Only the root's own members count.
func findString(head, tail []byte, name string) []byte {
	c := cursor{b: head}
	key, ok := c.firstKey()
	return c.findString(key, ok, tail, name)
}

// firstKey reads up to the first value of the root object. What is no object is dropped.
func (c *cursor) firstKey() (key []byte, ok bool) {
	if !c.take('{') {
		c.b, c.i = nil, 0
		return nil, false
	}
	return c.key()
}

// findString goes on from firstKey. Nearly always the name is the first or second key, or else among the last, so the
// tail is tried before the rest of head.
func (c *cursor) findString(key []byte, ok bool, tail []byte, name string) []byte {
	if c.b == nil {
		return nil
	}
	for n := 0; ok; n++ {
		if equals(key, name) {
			if raw, ok := c.str(); ok {
				return raw
			}
			break
		}
		if n == 1 {
			if raw := findStringBack(tail, name); raw != nil {
				return raw
			}
			tail = nil
		}
		if !c.skip() || !c.take(',') {
			break
		}
		key, ok = c.key()
	}
	return findStringBack(tail, name)
}

func findStringBack(tail []byte, name string) []byte {
	c := backCursor{b: tail}
	if !c.take('}') {
		return nil
	}
	for {
		key, value, ok := c.member()
		if !ok {
			return nil
		}
		if equals(key, name) {
			v := cursor{b: value}
			raw, _ := v.str()
			return raw
		}
		if !c.take(',') {
			return nil
		}
	}
}

// maxName is the longest event type or key that can matter; see unescape.
const maxName = 64

// equals compares a raw JSON string with a plain one.
func equals(raw []byte, s string) bool {
	if len(raw) <= len(s) { // escapes only make it longer
		return string(raw) == s
	}
	var buf [maxName]byte
	return bytes.IndexByte(raw, '\\') >= 0 && string(unescape(buf[:0], raw)) == s
}

// unescape returns raw with its escapes resolved, in buf if there are any. It is for comparing with plain ASCII: other
// characters become 0xff, which no name holds, and what does not fit buf is cut.
func unescape(buf, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	for i := 0; i < len(raw) && len(buf) < cap(buf); i++ {
		ch := raw[i]
		if ch == '\\' && i+1 < len(raw) {
			i++
			if ch = unescaped(raw[i]); raw[i] == 'u' {
				ch = ascii(raw[i+1:])
				i = min(i+4, len(raw))
			}
		}
		buf = append(buf, ch)
	}
	return buf
}

// unescaped resolves a one-letter escape. Those of control characters are in no name.
func unescaped(letter byte) byte {
	switch letter {
	case '"', '\\', '/':
		return letter
	}
	return 0xff
}

// ascii resolves the four hexadecimal digits of a \u escape, or returns 0xff.
func ascii(digits []byte) byte {
	if len(digits) < 4 || digits[0] != '0' || digits[1] != '0' {
		return 0xff
	}
	v := hexDigit(digits[2])<<4 | hexDigit(digits[3])
	if v > 0x7f || hexDigit(digits[3]) > 0xf {
		return 0xff
	}
	return v
}

// hexDigit returns a digit's value, or 0xff.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
