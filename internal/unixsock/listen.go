package unixsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of Listen, wrapped with the path and what to do about it.
var (
	// ErrInUse: a live process listens on the path.
	ErrInUse = errors.New("socket in use")
	// ErrNotOurs: what is at the path is no socket, or another user's.
	ErrNotOurs = errors.New("path taken")
	// ErrUnsafeDir: others could replace the socket.
	ErrUnsafeDir = errors.New("unsafe directory")
	// ErrPathTooLong: the system has no room for the path in a socket address.
	ErrPathTooLong = errors.New("path too long")
)

const (
	probeTimeout = time.Second
	lockTimeout  = 2 * time.Second
	// maxPath is what sun_path holds beside its final NUL.
	maxPath = len(unix.RawSockaddrUnix{}.Path) - 1
)

// Options says who may open a socket.
type Options struct {
	Mode os.FileMode // permission bits, default 0600
	GID  int         // group of the socket, default 0: that of the process
}

// DefaultOptions is 0660 for the group rtd where that exists and this process may
// give a file to it, else 0600.
func DefaultOptions() Options { return groupOptions("rtd") }

// Listener is a listening Unix socket that cleans up after itself alone.
type Listener struct {
	*net.UnixListener
	path string
	id   fileID
	once sync.Once
	err  error
}

// Listen opens a stream socket at path. A missing last directory is made: private
// when the mode is, else open to entry. A socket that nobody answers on any more is
// replaced. A file beside it, path + ".lock", keeps two processes from doing so at
// once; it stays. Errors wrap one of the sentinels above or the system's own.
func Listen(path string, opts Options) (*Listener, error) {
	if opts.Mode == 0 {
		opts.Mode = 0o600
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on %s: %w: %d bytes where the system takes %d: choose a shorter path", path, ErrPathTooLong, len(path), maxPath)
	}
	if err := prepareDir(filepath.Dir(path), opts.Mode); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	unlock, err := lock(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := bind(path, opts)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

// bind opens the socket for its owner alone and only then lets others in, so that
// there is no instant at which the wrong group or the umask decides.
func bind(path string, opts Options) (*Listener, error) {
	inner, err := listenPrivate(path)
	if err != nil {
		return nil, unwrapNet(err)
	}
	inner.SetUnlinkOnClose(false)
	l := &Listener{UnixListener: inner, path: path}
	if l.id, err = identify(path); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	if err := share(path, opts); err != nil {
		return nil, errors.Join(err, os.Remove(path), inner.Close())
	}
	return l, nil
}

func share(path string, opts Options) error {
	if opts.GID != 0 {
		if err := giveTo(path, opts.GID); err != nil {
			return fmt.Errorf("give the socket to group %d: %w", opts.GID, unwrapPath(err))
		}
	}
	return os.Chmod(path, opts.Mode.Perm())
}

// giveTo changes the group of a file that has another: a sandbox may forbid chown(2) to a process that needs none.
func giveTo(path string, gid int) error {
	info, err := os.Lstat(path)
	if err != nil || int(info.Sys().(*syscall.Stat_t).Gid) == gid {
		return err
	}
	return os.Chown(path, -1, gid)
}

// Close stops listening. It unlinks the path if, and only if, this socket is still
// what stands there. Calling it again returns the first result.
func (l *Listener) Close() error {
	l.once.Do(func() { l.err = l.close() })
	return l.err
}

func (l *Listener) close() error {
	// The inode number cannot be reused for another file while the socket is open:
	// compare and unlink first, close after.
	unlock, err := lock(l.path)
	if err == nil {
		defer unlock()
		if id, idErr := identify(l.path); idErr == nil && id == l.id {
			err = os.Remove(l.path)
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil // the directory is gone, and the socket with it
	}
	return errors.Join(err, l.UnixListener.Close())
}

// fileID tells a file from another that took its name.
type fileID struct{ dev, ino uint64 }

func identify(path string) (fileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(stat.Dev), stat.Ino}, nil
}

// removeStale clears the way for a bind, or says what stands in it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%w: it is no socket: move it away or choose another path", ErrNotOurs)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return fmt.Errorf("%w: the socket there belongs to uid %d: let its owner remove it or choose another path", ErrNotOurs, owner)
	}
	if err := probe(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// probe returns nil when nobody listens at path. Only a refusal proves that: a full
// backlog or a slow answer is a sign of life.
func probe(path string) error {
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%w: another daemon answers there: stop it or choose another path", ErrInUse)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EPROTOTYPE):
		return fmt.Errorf("%w: the socket there is no stream socket: move it away or choose another path", ErrNotOurs)
	default:
		return fmt.Errorf("%w: %w", ErrInUse, unwrapNet(err))
	}
}

// lock takes the lock file beside path, which is held only while the path changes
// hands: a daemon that lost its path to a successor must not stand in its way.
func lock(path string) (unlock func(), err error) {
	name := path + ".lock"
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockTimeout)
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			file.Close()
			return nil, fmt.Errorf("%w: lock %s: %w", ErrInUse, name, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// unwrapNet drops the "listen unix /path:" that the caller says better.
func unwrapNet(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

func unwrapPath(err error) error {
	if op, ok := errors.AsType[*os.PathError](err); ok {
		return op.Err
	}
	return err
}
