package config

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadRegular reads a regular file of most bytes at most. Anything else is refused without waiting for it: a pipe that
// nobody writes to would keep its reader for ever.
func ReadRegular(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // with a pipe too, this returns at once
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is longer than such a file may be, %s", name, showSize(most))
	}
	return b, err
}
