// Package files reads the files that a configuration names: its own, and those with secrets, certificates and authorities.
//
// It guarantees that nothing but a regular file is read, so that no read waits for somebody else (a pipe, a socket or a
// device is refused, and not even opened), and that none is longer than its caller allows. Links are followed: a mount of
// secrets is made of them. Errors are one line that names the file and what to do, and never what is in the file.
package files

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Read returns what is in a regular file of most bytes at most.
func Read(name string, most int64) ([]byte, error) {
	if info, err := os.Stat(name); err == nil { // else it says why as it is opened
		if err := checkRegular(name, info); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // with a pipe that has come since, this returns at once too
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is longer than such a file may be, %s; is it the right one?", name, showSize(most))
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func checkRegular(name string, info fs.FileInfo) error {
	what := "something else"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a directory; name a file in it", name)
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("%s is not a regular file but %s; name a file", name, what)
}

// showSize writes a bound in the larger of two units that leaves it whole.
func showSize(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n>>10, 10) + "KiB"
}
