package unixsock

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// EnvSocket is the environment variable that names the control socket.
const EnvSocket = "RTD_SOCKET"

// runDir is the system-wide directory; a variable so that tests need not be root.
var runDir = "/run/rtd"

const socketName = "rtd.sock"

// DefaultPaths returns the places of the control socket that are open to this
// user, best first: /run/rtd for root and for whoever may enter it, then the user's
// runtime directory, then a private directory under /tmp. RTD_SOCKET does not count.
func DefaultPaths() []string {
	var dirs []string
	if os.Geteuid() == 0 || may(runDir, unix.X_OK) {
		dirs = append(dirs, runDir)
	}
	// The XDG base directory specification: a relative path is to be ignored.
	if xdg := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(xdg) {
		dirs = append(dirs, filepath.Join(xdg, "rtd"))
	}
	dirs = append(dirs, "/tmp/rtd-"+strconv.Itoa(os.Geteuid()))
	for i, dir := range dirs {
		dirs[i] = filepath.Join(dir, socketName)
	}
	return dirs
}

// DefaultSocket is where a daemon listens that was told nothing: RTD_SOCKET if
// set, else the first of DefaultPaths it can create a file in.
func DefaultSocket() string {
	if path := os.Getenv(EnvSocket); path != "" {
		return path
	}
	paths := DefaultPaths()
	for _, path := range paths {
		dir := filepath.Dir(path)
		if _, err := os.Stat(dir); err != nil {
			dir = filepath.Dir(dir) // Listen makes the last directory
		}
		if may(dir, unix.W_OK|unix.X_OK) {
			return path
		}
	}
	return paths[len(paths)-1]
}

// FindSocket is where a client connects that was told nothing: RTD_SOCKET if set,
// else the first of DefaultPaths that holds a socket, else, for the caller's error
// to name, the one in /run/rtd if that is there but shut to this user, or
// DefaultSocket. It wraps ErrUnsafeDir rather than return a socket that
// some third user may have placed there.
func FindSocket() (string, error) {
	if path := os.Getenv(EnvSocket); path != "" {
		return path, nil
	}
	for _, path := range DefaultPaths() {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Type() != os.ModeSocket {
			continue
		}
		// The owner of /run/rtd may be the daemon's own user: only root can have said so.
		if dir := filepath.Dir(path); dir != runDir {
			if err := checkDir(dir); err != nil {
				return "", err
			}
		}
		return path, nil
	}
	if may(runDir, unix.F_OK) && !may(runDir, unix.X_OK) {
		return filepath.Join(runDir, socketName), nil
	}
	return DefaultSocket(), nil
}

func may(path string, mode uint32) bool { return unix.Access(path, mode) == nil }
