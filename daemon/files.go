package daemon

import (
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// filesInterval is how often files are looked at, at most: a handshake does so, and nobody while there is none.
const filesInterval = time.Second

// fromFiles is a value that is read from files, and again once one of them changed: another file took its name, or its time
// or length is another. It is safe for concurrent use.
type fromFiles[T any] struct {
	paths []string
	read  func() (T, error)
	// report is told of every attempt that a change gave cause to but those of reload, once.
	report func(T, error)
	state  atomic.Pointer[filesState[T]]
	next   atomic.Int64 // when the files are looked at again, unix ns
}

// filesState is immutable.
type filesState[T any] struct {
	value T
	err   error         // why the files as they are cannot be used; then value is the one before
	files []os.FileInfo // as they were before they were read; nil for one that is missing
}

func newFromFiles[T any](read func() (T, error), report func(T, error), paths ...string) (*fromFiles[T], error) {
	f := &fromFiles[T]{paths: paths, read: read, report: report}
	f.next.Store(time.Now().Add(filesInterval).UnixNano())
	s := f.attempt(new(filesState[T]))
	return f, s.err
}

// get returns the value, and looks at the files if it is time to.
func (f *fromFiles[T]) get(now time.Time) T {
	if next := f.next.Load(); now.UnixNano() >= next && f.next.CompareAndSwap(next, now.Add(filesInterval).UnixNano()) {
		if s, changed := f.look(); changed {
			f.report(s.value, s.err)
		}
	}
	return f.state.Load().value
}

// reload looks at the files now and says what is wrong with them, also if get found that before.
func (f *fromFiles[T]) reload() error {
	s, _ := f.look()
	return s.err
}

func (f *fromFiles[T]) look() (s *filesState[T], changed bool) {
	old := f.state.Load()
	if slices.EqualFunc(old.files, f.stat(), sameFile) {
		return old, false
	}
	return f.attempt(old), true
}

// attempt reads the files. They are looked at first, so that what changes meanwhile is seen the next time.
func (f *fromFiles[T]) attempt(old *filesState[T]) *filesState[T] {
	s := &filesState[T]{files: f.stat()}
	if s.value, s.err = f.read(); s.err != nil {
		s.value = old.value
	}
	f.state.Store(s)
	return s
}

func (f *fromFiles[T]) stat() []os.FileInfo {
	infos := make([]os.FileInfo, len(f.paths))
	for i, path := range f.paths {
		if info, err := os.Stat(path); err == nil { // why not is what reading it will say
			infos[i] = info
		}
	}
	return infos
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
