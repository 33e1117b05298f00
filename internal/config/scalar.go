package config

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind is the type of a scalar, as people see it.
type kind string

// The kinds. Their YAML forms are text, except for numbers, booleans and objects.
const (
	kindText     kind = "text"
	kindWhole    kind = "whole number"
	kindNumber   kind = "number"
	kindBool     kind = "true or false"
	kindDuration kind = "duration"
	kindSize     kind = "size"
	kindTime     kind = "time"
	kindTexts    kind = "list of texts"
	kindIDs      kind = "list of numbers"
	kindObject   kind = "keys and values"
)

// isList reports whether the value is a sequence. In the environment its items are separated by commas.
func (k kind) isList() bool { return k == kindTexts || k == kindIDs }

// scalar is a value that is read as a whole. The error of set says what is wrong, without the value and without a
// subject: "is not between 0 and 7".
type scalar struct {
	kind    kind
	set     func(string) error // one value; of a list, one item
	get     func() string
	clear   func() // empties a list
	items   func() []string
	min     string // of numbers, durations and sizes; "": none
	max     string
	enum    []string
	pattern string // a regular expression, for the schema
}

// text is a text, or one of a few words.
func text(p *string, words ...string) *scalar {
	s := &scalar{kind: kindText, enum: words, get: func() string { return *p }}
	s.set = func(v string) error {
		switch {
		case v == "":
			return fmt.Errorf("is empty; give a value or leave the key out")
		case len(words) > 0 && !slices.Contains(words, v):
			return fmt.Errorf("is none of %s%s", strings.Join(words, ", "), didYouMean(v, words))
		case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return fmt.Errorf("holds a control character or a line break")
		}
		*p = v
		return nil
	}
	return s
}

// checked adds a check to a text.
func (s *scalar) checked(pattern string, check func(string) error) *scalar {
	set := s.set
	s.pattern = pattern
	s.set = func(v string) error {
		if err := check(v); err != nil {
			return err
		}
		return set(v)
	}
	return s
}

// matching makes a text match a pattern; otherwise it is not what.
func (s *scalar) matching(pattern, what string) *scalar {
	return s.checked(pattern, func(v string) error {
		if !compiled(pattern).MatchString(v) {
			return fmt.Errorf("is not %s", what)
		}
		return nil
	})
}

// expressions are the patterns of keys. There are few, and each is met again with every item of a list.
var expressions sync.Map

func compiled(pattern string) *regexp.Regexp {
	if re, ok := expressions.Load(pattern); ok {
		return re.(*regexp.Regexp) // nothing else is stored
	}
	re := regexp.MustCompile(pattern)
	expressions.Store(pattern, re)
	return re
}

func whole(p *int, least, most int) *scalar {
	s := &scalar{kind: kindWhole, min: strconv.Itoa(least), max: strconv.Itoa(most), get: func() string { return strconv.Itoa(*p) }}
	s.set = func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || strings.HasPrefix(v, "+") {
			return fmt.Errorf("is not a whole number between %d and %d", least, most)
		}
		if n < int64(least) || n > int64(most) {
			return fmt.Errorf("is not between %d and %d", least, most)
		}
		*p = int(n)
		return nil
	}
	return s
}

var plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

func number(p *float64, least, most float64) *scalar {
	show := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	s := &scalar{kind: kindNumber, min: show(least), max: show(most), get: func() string { return show(*p) }}
	s.set = func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !plainNumber.MatchString(v) {
			return fmt.Errorf("is not a number between %s and %s", s.min, s.max)
		}
		if n < least || n > most {
			return fmt.Errorf("is not between %s and %s", s.min, s.max)
		}
		*p = n
		return nil
	}
	return s
}

func boolean(p *bool) *scalar {
	return &scalar{
		kind: kindBool,
		get:  func() string { return strconv.FormatBool(*p) },
		set: func(v string) error {
			if v != "true" && v != "false" {
				return fmt.Errorf("is neither true nor false")
			}
			*p = v == "true"
			return nil
		},
	}
}

const durationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`

var durationForm = regexp.MustCompile(durationPattern)

// Day is the unit that people think in above an hour; the form has none, as days differ in length.
const day = 24 * time.Hour

func duration(p *time.Duration, least, most time.Duration) *scalar {
	s := &scalar{kind: kindDuration, min: showDuration(least), max: showDuration(most), pattern: durationPattern, get: func() string { return showDuration(*p) }}
	s.set = func(v string) error {
		d, err := time.ParseDuration(v)
		switch {
		case isDigits(v):
			return fmt.Errorf("has no unit; write %ss, or ms, m or h", v)
		case !durationForm.MatchString(v) || err != nil:
			return fmt.Errorf("is not a duration such as 250ms, 10s, 5m or 1h30m")
		case d < least || d > most:
			return fmt.Errorf("is not between %s and %s", s.min, s.max)
		}
		*p = d
		return nil
	}
	return s
}

// showDuration writes a duration as people do: 1h0m0s is 1h.
func showDuration(d time.Duration) string {
	v := d.String()
	if strings.HasSuffix(v, "m0s") {
		v = strings.TrimSuffix(v, "0s")
	}
	if strings.HasSuffix(v, "h0m") {
		v = strings.TrimSuffix(v, "0m")
	}
	return v
}

const sizePattern = `^[0-9]+(B|KiB|MiB|GiB|TiB)$`

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

var sizeForm = regexp.MustCompile(sizePattern)

func size(p *int64, least, most int64) *scalar {
	s := &scalar{kind: kindSize, min: showSize(least), max: showSize(most), pattern: sizePattern, get: func() string { return showSize(*p) }}
	s.set = func(v string) error {
		if isDigits(v) {
			return fmt.Errorf("has no unit; write %sB, or KiB, MiB or GiB", v)
		}
		if !sizeForm.MatchString(v) {
			return fmt.Errorf("is not a size such as 512KiB, 32MiB or 2GiB")
		}
		digits := strings.TrimRight(v, "BKMGTi")
		n, err := strconv.ParseInt(digits, 10, 64)
		shift := 10 * slices.Index(sizeUnits, v[len(digits):])
		if err != nil || n > most>>shift || n<<shift < least {
			return fmt.Errorf("is not between %s and %s", s.min, s.max)
		}
		*p = n << shift
		return nil
	}
	return s
}

// showSize writes a size in the largest unit that leaves it whole.
func showSize(n int64) string {
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len(sizeUnits)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + sizeUnits[unit]
}

func isDigits(v string) bool {
	return v != "" && !strings.ContainsFunc(v, func(r rune) bool { return r < '0' || r > '9' })
}

func instant(p *time.Time) *scalar {
	return &scalar{
		kind: kindTime,
		get: func() string {
			if p.IsZero() {
				return ""
			}
			return p.Format(time.RFC3339)
		},
		set: func(v string) error {
			t, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return fmt.Errorf("is not a time such as 2030-01-31T12:00:00Z")
			}
			*p = t
			return nil
		},
	}
}

// texts is a list of texts, each checked as item is; twice the same is a fault.
func texts(p *[]string, item func(*string) *scalar) *scalar {
	var one string
	check := item(&one)
	return &scalar{
		kind: kindTexts, pattern: check.pattern, enum: check.enum,
		get:   func() string { return strings.Join(*p, ",") },
		clear: func() { *p = nil },
		items: func() []string { return *p },
		set: func(v string) error {
			if err := check.set(v); err != nil {
				return err
			}
			if slices.Contains(*p, v) {
				return fmt.Errorf("is given twice")
			}
			*p = append(*p, v)
			return nil
		},
	}
}

// ids is a list of numeric user or group ids.
func ids(p *[]uint32) *scalar {
	shown := func() []string {
		var list []string
		for _, id := range *p {
			list = append(list, strconv.FormatUint(uint64(id), 10))
		}
		return list
	}
	return &scalar{
		kind: kindIDs, min: "0", max: strconv.FormatUint(1<<32-2, 10),
		get:   func() string { return strings.Join(shown(), ",") },
		clear: func() { *p = nil },
		items: shown,
		set: func(v string) error {
			n, err := strconv.ParseUint(v, 10, 32)
			if err != nil || n == 1<<32-1 || strings.HasPrefix(v, "+") {
				return fmt.Errorf("is not a numeric id")
			}
			*p = append(*p, uint32(n))
			return nil
		},
	}
}

const modePattern = `^0[0-7]{3}$`

// mode is the permission bits of a file, in quotes: YAML would read 0660 as another number.
func mode(p *os.FileMode) *scalar {
	var v string
	s := text(&v).matching(modePattern, `a mode such as "0660"`)
	set := s.set
	s.get = func() string {
		if *p == 0 {
			return ""
		}
		return fmt.Sprintf("%04o", *p)
	}
	s.set = func(v string) error {
		if err := set(v); err != nil {
			return err
		}
		bits, err := strconv.ParseUint(v, 8, 32)
		switch {
		case err != nil:
			return err
		case bits&0o600 != 0o600:
			return fmt.Errorf("keeps the owner, rtd itself, out; it begins with 06")
		case bits&0o111 != 0:
			return fmt.Errorf("has an execute bit, which a socket has no use for")
		}
		*p = os.FileMode(bits)
		return nil
	}
	return s
}

// address is host:port.
func address(p *string) *scalar {
	return text(p).checked("", func(v string) error {
		_, port, err := net.SplitHostPort(v)
		if err != nil {
			return fmt.Errorf("is not host:port, such as 127.0.0.1:4001")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return fmt.Errorf("has no port between 0 and 65535")
		}
		return nil
	})
}
