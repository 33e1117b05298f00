package daemon

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtd-project/rtd/internal/stats"
)

// readDescriptors counts the open descriptors and sums up what the kernel holds for those that are sockets. A descriptor
// that is closed and used anew meanwhile does no harm: it is ours as well.
func readDescriptors() (files *uint32, sockets *uint64) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, nil
	}
	defer dir.Close()
	var count uint32
	var sum uint64
	answered := false
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			count++
			if m, ok := socketMemory(fd); ok {
				sum += m.Bytes()
				answered = true
			}
		}
		if err != nil {
			break
		}
	}
	count-- // dir itself
	if !answered {
		return &count, nil
	}
	return &count, &sum
}

// socketMemory asks for SO_MEMINFO, which x/sys/unix has no call for.
func socketMemory(fd int) (m stats.SocketMemory, ok bool) {
	size := uint32(unsafe.Sizeof(m))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&size)), 0)
	return m, errno == 0
}
