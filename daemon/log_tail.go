package daemon

import (
	"bytes"
	"sync"
)

// logTailSize bounds the log that is kept for diagnostics, in bytes.
const logTailSize = 256 << 10

// logTail keeps the last lines written to it, up to max bytes. It takes memory as it fills.
type logTail struct {
	max int

	mu   sync.Mutex
	buf  []byte // full: a ring that begins at next
	next int
}

func newLogTail(size int) *logTail { return &logTail{max: size} }

// Write implements io.Writer and never fails.
func (t *logTail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	p = p[max(0, n-t.max):]
	free := min(t.max-len(t.buf), len(p))
	t.buf = append(t.buf, p[:free]...)
	for p = p[free:]; len(p) > 0; {
		copied := copy(t.buf[t.next:], p)
		p, t.next = p[copied:], (t.next+copied)%t.max
	}
	return n, nil
}

// Lines returns what is kept, from the first whole line on.
func (t *logTail) Lines() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) < t.max {
		return bytes.Clone(t.buf)
	}
	all := append(bytes.Clone(t.buf[t.next:]), t.buf[:t.next]...)
	_, whole, _ := bytes.Cut(all, []byte("\n"))
	return whole
}
