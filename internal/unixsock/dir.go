package unixsock

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// prepareDir makes the directory of a socket if it is missing and refuses one in
// which others could replace what they do not own.
func prepareDir(dir string, mode os.FileMode) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		if mode.Perm()&0o077 != 0 {
			return os.Chmod(dir, 0o755) //nolint:gosec // those the socket is for must reach it
		}
		return nil
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	return checkDir(dir)
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is no directory", ErrUnsafeDir, dir)
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to uid %d: use a directory of your own", ErrUnsafeDir, dir, owner)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("%w: others may write to %s: chmod go-w it", ErrUnsafeDir, dir)
	}
	return nil
}

func groupOptions(name string) Options {
	private := Options{Mode: 0o600}
	group, err := user.LookupGroup(name)
	if err != nil {
		return private
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil || !mayGiveTo(gid) {
		return private
	}
	return Options{Mode: 0o660, GID: gid}
}

// mayGiveTo says whether chown(2) will let this process give a file to the group.
func mayGiveTo(gid int) bool {
	if os.Geteuid() == 0 || os.Getegid() == gid {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, gid)
}
