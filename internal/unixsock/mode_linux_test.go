package unixsock

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f on a thread whose file access is that of another user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("acting as another user takes root")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			done <- err
			return
		}
		if _, err := unix.SetfsgidRetGid(65534); err != nil {
			done <- err
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// connect makes one attempt on the calling thread.
func connect(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

func TestCaseK5NeverWiderThanConfigured(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	f := func(opts Options, admitted bool) {
		t.Helper()
		path := filepath.Join(sharedDir(t), "s")
		var stop atomic.Bool
		var wide, seen atomic.Int64
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for !stop.Load() {
				info, err := os.Lstat(path)
				if err != nil {
					continue
				}
				seen.Add(1)
				if info.Mode().Perm()&^opts.Mode != 0 {
					wide.Add(1)
				}
			}
		}()
		var in, denied int
		asNobody(t, func() {
			// The thread listens as root does and knocks as nobody, in turn, so that it
			// meets the socket at every age; the watcher above meets it in between.
			for range 100 {
				l := make(chan *Listener)
				go func() {
					listener, err := Listen(path, opts)
					if err != nil {
						t.Error(err)
					}
					l <- listener
				}()
				knock := func() {
					switch err := connect(path); {
					case err == nil:
						in++
					case errors.Is(err, unix.EACCES):
						denied++
					case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED):
						t.Errorf("nobody gets %v", err)
					}
				}
				var listener *Listener
				for listener == nil && !t.Failed() {
					knock()
					select {
					case listener = <-l:
					default:
					}
				}
				knock()
				if listener != nil {
					listener.Close()
				}
			}
		})
		stop.Store(true)
		<-watched
		if n := wide.Load(); n != 0 || seen.Load() == 0 {
			t.Fatalf("%v: wider in %d of %d looks", opts, n, seen.Load())
		}
		if admitted != (in > 0) || (!admitted && denied < 100) {
			t.Fatalf("%v: nobody came in %d times, was denied %d times", opts, in, denied)
		}
	}
	f(Options{Mode: 0o600}, false)
	f(Options{Mode: 0o660, GID: 12345}, false)
	f(Options{Mode: 0o660, GID: 65534}, true) // its own group
	f(Options{Mode: 0o666}, true)
}
