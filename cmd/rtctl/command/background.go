package command

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// leastPriority is the nice value of the live view.
const leastPriority = 19

// stayBehind lets the process have one core at a time, and that only while nobody else wants it: a view that is drawn
// again and again must not hold up the calls of the daemon beside it. A system that refuses costs the view nothing.
func stayBehind() {
	runtime.GOMAXPROCS(1)
	// Linux gives every thread a priority of its own. A later one has that of the thread that starts it, so that all have
	// it once there are no more of them than before.
	for known := 0; ; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, leastPriority)
			return
		}
		if len(threads) == known {
			return
		}
		known = len(threads)
		for _, thread := range threads {
			if id, err := strconv.Atoi(thread.Name()); err == nil {
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, leastPriority)
			}
		}
	}
}
