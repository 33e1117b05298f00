package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen shows a text again and again: in place on a terminal, else one below the other.
type screen struct {
	w     io.Writer
	size  func() (width, height int) // nil: no terminal
	lines int                        // of the text drawn last
}

func (a *app) newScreen() *screen { return &screen{w: a.stdout, size: terminalSize(a.stdout)} }

// terminalSize returns how to measure the terminal behind w, nil when there is none.
func terminalSize(w io.Writer) func() (width, height int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func() (int, int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}
}

func (s *screen) draw(text string) error {
	text = printable(text)
	if s.size == nil {
		if s.lines > 0 {
			text = "\n" + text
		}
		s.lines++
		_, err := io.WriteString(s.w, text)
		return err
	}
	lines := fit(text, s.size)
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines) // back to the first line
	}
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n") // and nothing left of a longer line
	}
	b.WriteString("\x1b[J")
	s.lines = len(lines)
	_, err := io.WriteString(s.w, b.String()) // in one write, so that it does not flicker
	return err
}

// fit cuts text so that no line wraps and none scrolls away, either of which would
// make the way back to the first line wrong.
func fit(text string, size func() (int, int)) []string {
	width, height := size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height-1 {
		lines = lines[:max(height-1, 0)]
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return lines
}
