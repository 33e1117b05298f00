//go:build !linux

package command

import (
	"runtime"
	"syscall"
)

// stayBehind lets the process have one core at a time, at the least priority: a view that is drawn again and again must not
// hold up the calls of the daemon beside it. A system that refuses costs the view nothing.
func stayBehind() {
	runtime.GOMAXPROCS(1)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
}
