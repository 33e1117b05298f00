package redact

import (
	"bytes"
	"io"
	"sync"
)

// maxLine bounds what is held of a line whose end has not been written yet, in bytes.
const maxLine = 64 << 10

const cutMark = "[line cut]\n"

// Writer redacts what is written to it, line by line: an unfinished line is held until its end is written, so a secret
// is found however it is spread over calls of Write. A line that is unfinished at 64 KiB is cut: the rest of it is
// dropped, and a mark says so. It is safe for concurrent use.
type Writer struct {
	r *Redactor
	w io.Writer

	mu       sync.Mutex
	held     []byte // an unfinished line
	dropping bool   // the rest of a line that was cut
}

// line is b without the registered secrets and the shapes. What is hidden is not looked for: whoever chose it would
// choose what a log says, field names and all. It is to be taken out of the words of an upstream before they get here.
func (r *Redactor) line(b []byte) []byte {
	s := string(b)
	if spans := r.find(s, nil); len(spans) > 0 {
		return []byte(replace(s, spans))
	}
	return b
}

// Writer returns a Writer in front of w. Each of its writes to w is of whole lines.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, w: w} }

// Write implements io.Writer. All of p is taken, also when w fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if w.dropping {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			return n, nil
		}
		p, w.dropping = p[end+1:], false
	}
	var out []byte
	if end := bytes.LastIndexByte(p, '\n') + 1; end > 0 {
		out = w.r.line(append(w.held, p[:end]...))
		w.held, p = nil, p[end:]
	}
	if w.held = append(w.held, p...); len(w.held) > maxLine {
		out = append(out[:len(out):len(out)], w.cut()...)
	}
	if len(out) == 0 {
		return n, nil
	}
	_, err := w.w.Write(out)
	return n, err
}

// cut ends the held line early. It goes back behind any secret that could have begun, at six bytes for each of an
// escaped one, and then to a white space, which no credential of a known shape crosses.
func (w *Writer) cut() []byte {
	keep := w.held[:max(0, len(w.held)-6*w.r.longest())]
	keep = keep[:bytes.LastIndexAny(keep, " \t")+1]
	out := append(w.r.Bytes(keep), cutMark...)
	w.held, w.dropping = nil, true
	return out
}

// Flush writes an unfinished line as it stands, for the end of the program.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	out := w.r.Bytes(w.held)
	w.held = nil
	_, err := w.w.Write(out)
	return err
}
