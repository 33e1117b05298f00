package unixsock

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sharedDir is a directory that other users may enter, unlike t.TempDir.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustListen(t *testing.T, path string, opts Options) *Listener {
	t.Helper()
	l, err := Listen(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serve answers every connection with a word, so that a test knows whom it reached.
func serve(l net.Listener, word string) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			conn.Close()
		}
	}()
}

func reached(t *testing.T, path string) string {
	t.Helper()
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	word, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(word)
}

func TestListenServesAndCleansUp(t *testing.T) {
	path := filepath.Join(sharedDir(t), "s")
	l := mustListen(t, path, Options{})
	serve(l, "hello")
	if got := reached(t, path); got != "hello" {
		t.Fatalf("reached %q", got)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("after Close the path is still there: %v", err)
	}
}

func TestListenModeAndGroup(t *testing.T) {
	f := func(opts Options, mode os.FileMode, gid int) {
		t.Helper()
		if opts.GID != 0 && os.Geteuid() != 0 {
			t.Skip("giving files away takes root")
		}
		path := filepath.Join(sharedDir(t), "s")
		mustListen(t, path, opts)
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Fatalf("mode %v, want %v", got, mode)
		}
		if got := int(info.Sys().(*syscall.Stat_t).Gid); got != gid {
			t.Fatalf("group %d, want %d", got, gid)
		}
	}
	old := syscall.Umask(0o077) // a narrow umask must not narrow what was asked for
	defer syscall.Umask(old)
	f(Options{}, 0o600, os.Getegid())
	f(Options{Mode: 0o666}, 0o666, os.Getegid())
	f(Options{Mode: 0o660, GID: 12345}, 0o660, 12345)
}

func TestListenMakesTheDirectory(t *testing.T) {
	f := func(mode, want os.FileMode) {
		t.Helper()
		dir := filepath.Join(sharedDir(t), "new")
		mustListen(t, filepath.Join(dir, "s"), Options{Mode: mode})
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Fatalf("directory for a socket of %v has mode %v, want %v", mode, got, want)
		}
	}
	f(0o600, 0o700)
	f(0o660, 0o755)
}

func TestListenRefusesUnsafeDirectories(t *testing.T) {
	f := func(mode os.FileMode, uid int, ok bool) {
		t.Helper()
		dir := sharedDir(t)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if uid != os.Geteuid() {
			if err := os.Chown(dir, uid, -1); err != nil {
				t.Skip("giving files away takes root")
			}
		}
		l, err := Listen(filepath.Join(dir, "s"), Options{})
		if ok {
			if err != nil {
				t.Fatalf("%v of uid %d: %v", mode, uid, err)
			}
			l.Close()
			return
		}
		if !errors.Is(err, ErrUnsafeDir) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("%v of uid %d: got %v, want %v naming the directory", mode, uid, err, ErrUnsafeDir)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Fatalf("left behind: %v", entries)
		}
	}
	self := os.Geteuid()
	f(0o755, self, true)
	f(0o777|os.ModeSticky, self, true)
	f(0o777, self, false)
	f(0o757, self, false)
	f(0o775, self, false)
	f(0o755, 65534, false)
}

func TestListenPathLength(t *testing.T) {
	dir := sharedDir(t)
	fill := func(n int) string { return filepath.Join(dir, strings.Repeat("x", n-len(dir)-1)) }
	mustListen(t, fill(maxPath), Options{})
	_, err := Listen(fill(maxPath+1), Options{})
	if !errors.Is(err, ErrPathTooLong) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want %v in one line", err, ErrPathTooLong)
	}
}

func TestListenLeavesOthersAlone(t *testing.T) {
	f := func(name string, want error, place func(path string) error) {
		t.Helper()
		path := filepath.Join(sharedDir(t), "s")
		if err := place(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path, Options{}); !errors.Is(err, want) {
			t.Fatalf("%s: got %v, want %v", name, err, want)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Fatalf("%s was replaced: %v", name, err)
		}
	}
	f("file", ErrNotOurs, func(path string) error { return os.WriteFile(path, []byte("data"), 0o600) })
	f("directory", ErrNotOurs, func(path string) error { return os.Mkdir(path, 0o700) })
	f("dangling link", ErrNotOurs, func(path string) error { return os.Symlink(path+".gone", path) })
	f("live socket", ErrInUse, func(path string) error {
		mustListen(t, path, Options{})
		return nil
	})
	f("datagram socket", ErrNotOurs, func(path string) error {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		return err
	})
	if os.Geteuid() == 0 {
		f("stale socket of another user", ErrNotOurs, func(path string) error {
			placeStale(t, path)
			return os.Lchown(path, 65534, -1)
		})
	}
}

// placeStale leaves a socket behind that nobody listens on.
func placeStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListenHasOneWinner(t *testing.T) {
	path := filepath.Join(sharedDir(t), "s")
	placeStale(t, path)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		won  []*Listener
		errs []error
	)
	for range 8 {
		wg.Go(func() {
			l, err := Listen(path, Options{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			won = append(won, l)
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d listeners on one path", len(won))
	}
	defer won[0].Close()
	for _, err := range errs {
		if !errors.Is(err, ErrInUse) {
			t.Errorf("a loser got %v", err)
		}
	}
	serve(won[0], "winner")
	if got := reached(t, path); got != "winner" {
		t.Fatalf("reached %q", got)
	}
}

func TestCaseK1StaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(sharedDir(t), "s")
	child := startChild(t, "listen", path)
	child.expect(t, "listening")
	if _, err := Listen(path, Options{}); !errors.Is(err, ErrInUse) {
		t.Fatalf("beside a live process: got %v, want %v", err, ErrInUse)
	}
	child.kill(t)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the crash should leave the socket: %v", err)
	}
	start := time.Now()
	serve(mustListen(t, path, Options{}), "second")
	if got := reached(t, path); got != "second" {
		t.Fatalf("reached %q", got)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Fatalf("took %v", took)
	}
}

func TestCaseK3SuccessorsSocketSurvives(t *testing.T) {
	f := func(name string, replace func(t *testing.T, path string) net.Listener) {
		t.Helper()
		path := filepath.Join(sharedDir(t), "s")
		old := mustListen(t, path, Options{})
		serve(replace(t, path), "successor")
		if err := old.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := reached(t, path); got != "successor" {
			t.Fatalf("%s: reached %q", name, got)
		}
	}
	f("renamed over", func(t *testing.T, path string) net.Listener {
		l := mustListen(t, path+".new", Options{})
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return l
	})
	// The file system may give a freed inode number to the very next file.
	f("removed and bound anew", func(t *testing.T, path string) net.Listener {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return mustListen(t, path, Options{})
	})
}

func TestCloseAfterTheDirectoryWent(t *testing.T) {
	dir := sharedDir(t)
	l := mustListen(t, filepath.Join(dir, "s"), Options{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
