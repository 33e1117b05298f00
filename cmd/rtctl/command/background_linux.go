package command

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// schedIdle is SCHED_IDLE of sched(7): what has it runs while nobody else wants the core, and at once yields it.
const schedIdle = 5

// stayBehind lets the process have one core at a time, and that only while nobody else wants it: a view that is drawn
// again and again must not hold up the calls of the daemon beside it. A system that refuses costs the view nothing.
func stayBehind() {
	runtime.GOMAXPROCS(1)
	// Every thread has a policy of its own. A later one has that of the thread that starts it, so that all have it once
	// there are no more of them than before.
	for known := 0; ; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil || len(threads) == known {
			return
		}
		known = len(threads)
		for _, thread := range threads {
			if id, err := strconv.Atoi(thread.Name()); err == nil {
				yieldAlways(id)
			}
		}
	}
}

func yieldAlways(thread int) {
	var priority int32 // the one there is
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), schedIdle, uintptr(unsafe.Pointer(&priority)))
}
