package wire

import (
	"io"
	"iter"
	"net/http"
	"net/textproto"
	"strings"
)

// headError is a head that breaks a rule. Clients and servers break the same ones; the texts fit both.
type headError struct {
	text     string
	tooLarge bool
}

func (e *headError) Error() string { return e.text }

var (
	errHeadBytes = &headError{"the head is longer than 16 KiB", true}
	errHeadLines = &headError{"the head has more than 64 lines", true}
	errBareLF    = &headError{"a line of the head ends in LF without CR", false}
	errBareCR    = &headError{"the head has a CR without LF", false}
	errControl   = &headError{"the head has a control character", false}
	errFold      = &headError{"the head has a folded header line", false}
	errEmpty     = &headError{"the head begins with an empty line", false}
	errNoColon   = &headError{"a header line has no colon", false}
	errName      = &headError{"a header name is not a token", false}
)

// headReader reads a head and keeps what came behind it. It looks at each byte once, however the bytes are cut, and
// its buffer grows with what has arrived, up to MaxHeadBytes.
type headReader struct {
	buf   []byte // all that was read
	start int    // where the current head begins
	seen  int    // bytes of buf already looked at
	line  int    // where the current line begins
	lines int    // complete lines
}

// read returns a whole head, its empty line included; rest has what came behind it. The error is a *headError or the
// reader's; an end inside the head is io.ErrUnexpectedEOF.
func (h *headReader) read(r io.Reader) ([]byte, error) {
	for {
		if done, err := h.scan(); done || err != nil {
			return h.buf[h.start:h.seen], err
		}
		if len(h.buf) == MaxHeadBytes {
			return nil, errHeadBytes
		}
		if len(h.buf) == cap(h.buf) {
			grown := make([]byte, len(h.buf), min(max(2*cap(h.buf), 1<<10), MaxHeadBytes))
			copy(grown, h.buf)
			h.buf = grown
		}
		n, err := r.Read(h.buf[len(h.buf):cap(h.buf)])
		h.buf = h.buf[:len(h.buf)+n]
		if n == 0 && err != nil {
			if err == io.EOF && len(h.buf) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// rest is what came behind the head that read returned.
func (h *headReader) rest() []byte { return h.buf[h.seen:] }

// next forgets the head that read returned, so that read can return the one behind it. For the bounds they count as one.
func (h *headReader) next() { h.start, h.line = h.seen, h.seen }

// scan looks at the new bytes and reports whether they complete the head.
func (h *headReader) scan() (done bool, err error) {
	for h.seen < len(h.buf) {
		c := h.buf[h.seen]
		afterCR := h.seen > h.line && h.buf[h.seen-1] == '\r'
		switch {
		case c == '\n' && !afterCR:
			return false, errBareLF
		case c == '\n':
			empty := h.seen-1 == h.line
			h.seen++
			if empty {
				return true, h.endOfHead()
			}
			h.line = h.seen
			if h.lines++; h.lines > MaxHeadLines {
				return false, errHeadLines
			}
			continue
		case afterCR:
			return false, errBareCR // RFC 9112 section 2.2
		case (c == ' ' || c == '\t') && h.seen == h.line && h.lines > 0:
			return false, errFold // RFC 9112 section 5.2
		case c != '\r' && c != '\t' && (c < ' ' || c == 0x7f):
			return false, errControl
		}
		h.seen++
	}
	return false, nil
}

func (h *headReader) endOfHead() error {
	if h.lines == 0 {
		return errEmpty
	}
	return nil
}

// parseHead cuts a head that headReader returned into its first line and its header, with canonical names.
func parseHead(head string) (first string, header http.Header, err error) {
	first, lines, _ := strings.Cut(head, "\r\n")
	count := strings.Count(lines, "\r\n")
	header = make(http.Header, count)
	values := make([]string, 0, count) // one array for all values
	for lines != "\r\n" {
		var line string
		line, lines, _ = strings.Cut(lines, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return "", nil, errNoColon
		}
		if !isToken(name) { // white space before the colon too: RFC 9112 section 5.1
			return "", nil, errName
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		value = strings.Trim(value, " \t")
		if old := header[name]; old != nil {
			header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return first, header, nil
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// isValue reports whether s can stand as a header value, RFC 9110 section 5.5.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// tokens splits the values of a list header, RFC 9110 section 5.6.1: several lines are one list, empty elements do
// not count.
func tokens(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range values {
			for element := range strings.SplitSeq(v, ",") {
				if element = strings.Trim(element, " \t"); element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// hasToken looks for a token of a list header, in any case.
func hasToken(values []string, token string) bool {
	for t := range tokens(values) {
		if strings.EqualFold(t, token) {
			return true
		}
	}
	return false
}
