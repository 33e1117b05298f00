package daemon

import (
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/term"

	"github.com/rtd-project/rtd/internal/redact"
)

// newLogger returns the daemon's logger on w: text where w is a terminal, JSON lines otherwise. Everything it writes
// passes through r.
func newLogger(w io.Writer, level hclog.Level, r *redact.Redactor) hclog.Logger {
	f, ok := w.(*os.File)
	return hclog.New(&hclog.LoggerOptions{
		Name:       "rtd",
		Level:      level,
		Output:     r.Writer(w),
		JSONFormat: !ok || !term.IsTerminal(int(f.Fd())),
		TimeFormat: "2006-01-02T15:04:05.000Z07:00",
	})
}
