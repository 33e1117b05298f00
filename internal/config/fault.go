package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Origin is where a value comes from.
type Origin struct {
	File         string // with Line and Column, which count from 1
	Line, Column int
	Variable     string // of the environment
	Flag         string // with its dashes
}

// String is how people call it: "rtd.yaml:3:5", "RTD_LOG_LEVEL", "--log-level", or "default" for the zero value.
func (o Origin) String() string {
	switch {
	case o.File != "" && o.Line > 0:
		return o.File + ":" + strconv.Itoa(o.Line) + ":" + strconv.Itoa(o.Column)
	case o.File != "":
		return o.File
	case o.Variable != "":
		return o.Variable
	case o.Flag != "":
		return o.Flag
	}
	return "default"
}

// layer orders origins by what overrides what.
func (o Origin) layer() int {
	switch {
	case o.Flag != "":
		return 3
	case o.Variable != "":
		return 2
	case o.File != "":
		return 1
	}
	return 0
}

// Fault is one thing that is wrong with a configuration.
type Fault struct { //nolint:errname // read as data more than as an error
	Origin  Origin // zero: nowhere in particular
	Key     string // its path, such as upstreams[0].url; "" for the file as a whole
	Message string // what is wrong and what would be right; no secret is in it
}

// Error is one line.
func (f Fault) Error() string {
	var b strings.Builder
	if f.Origin != (Origin{}) {
		b.WriteString(f.Origin.String() + ": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	return b.String() + f.Message
}

// Faults are all that is wrong with a configuration, in the order of the file.
type Faults []Fault //nolint:errname // the same

// Error has a line for each.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// AllFaults returns the faults that err stands for. Any other error is one.
func AllFaults(err error) Faults {
	var fs Faults
	var f Fault
	switch {
	case err == nil:
	case errors.As(err, &fs):
	case errors.As(err, &f):
		fs = Faults{f}
	default:
		fs = Faults{{Message: err.Error()}}
	}
	return fs
}

// quote shows a value that somebody wrote, unless it might be a secret.
func quote(v string) string {
	if looksSecret(v) {
		return "the value, which looks like a secret and is not repeated,"
	}
	if runes := []rune(v); len(runes) > 60 {
		v = string(runes[:60]) + "…"
	}
	return strconv.Quote(v)
}

// oneLine keeps a message that others worded from becoming several, and from telling a secret.
func oneLine(s string) string { return redactor.String(strings.Join(strings.Fields(s), " ")) }

func faultf(o Origin, key, format string, args ...any) Fault {
	return Fault{o, key, fmt.Sprintf(format, args...)}
}
