package daemon

import (
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/term"

	"github.com/rtd-project/rtd/internal/redact"
)

// Forms of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// newLogger returns the daemon's logger on w, in the given form or else in text where w is a terminal and as JSON lines
// otherwise. Everything it writes passes through r, and goes to also too.
func newLogger(w io.Writer, level hclog.Level, format string, r *redact.Redactor, also ...io.Writer) hclog.Logger {
	f, ok := w.(*os.File)
	json := format == LogJSON || format != LogText && (!ok || !term.IsTerminal(int(f.Fd())))
	return hclog.New(&hclog.LoggerOptions{
		Name:       "rtd",
		Level:      level,
		Output:     r.Writer(io.MultiWriter(append(also, w)...)),
		JSONFormat: json,
		TimeFormat: "2006-01-02T15:04:05.000Z07:00",
	})
}

// shown takes the credentials of the clients that are there out of the texts among the values of a line. It does so
// before the line is rendered, so that nobody's credential can change more than the value it stands in.
func (d *Daemon) shown(args ...any) []any {
	for i := 1; i < len(args); i += 2 {
		switch v := args[i].(type) {
		case string:
			args[i] = d.redact.String(v)
		case error:
			args[i] = d.redact.String(v.Error())
		}
	}
	return args
}
