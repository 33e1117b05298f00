package command

import (
	"errors"
	"strconv"
	"strings"
)

// invalidValue is a value that a flag does not take, as package pflag tells of it.
type invalidValue interface {
	error
	GetValue() string
	Unwrap() error
}

// flagFault is what to say of a wrong flag: what is wrong with a duration or a number, in words that tell what to write.
func flagFault(err error) error {
	bad, ok := errors.AsType[invalidValue](err)
	if !ok {
		return usagef("%s", err)
	}
	cause := bad.Unwrap()
	what := strings.TrimSuffix(bad.Error(), cause.Error())
	if strings.HasPrefix(cause.Error(), "time: ") {
		return usagef("%s%s", what, durationFault(bad.GetValue()))
	}
	if number, ok := errors.AsType[*strconv.NumError](cause); ok {
		return usagef("%s%s", what, numberFault(number))
	}
	return usagef("%s", err)
}

func durationFault(v string) string {
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return "it has no unit; write " + v + "s, or ms, m or h"
	}
	return "it is not a duration such as 250ms, 10s, 5m or 1h30m"
}

func numberFault(e *strconv.NumError) string {
	switch {
	case errors.Is(e, strconv.ErrRange):
		return "it is out of range"
	case e.Func == "ParseUint":
		return "it is not a whole number from 0 on"
	case e.Func == "ParseFloat":
		return "it is not a number"
	}
	return "it is not a whole number"
}
