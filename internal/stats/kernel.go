package stats

import (
	"bytes"
	"fmt"
	"strconv"
)

// ParseRollup returns the proportional set size, in bytes, from the text of /proc/PID/smaps_rollup: pages that other
// processes map too count by their share.
func ParseRollup(text []byte) (pss uint64, err error) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "Pss" {
			continue
		}
		pss, err = parseAmount(value)
		if err != nil {
			return 0, fmt.Errorf("smaps_rollup: Pss: %w", err)
		}
		return pss, nil
	}
	return 0, fmt.Errorf("smaps_rollup: no Pss: %w", ErrFormat)
}

// ParseSockstat returns the memory of all TCP buffers of the host, in bytes, from the text of /proc/net/sockstat.
func ParseSockstat(text []byte, pageSize int) (tcp uint64, err error) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			if string(fields[i]) != "mem" {
				continue
			}
			pages, err := strconv.ParseUint(string(fields[i+1]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("sockstat: %w: %w", ErrFormat, err)
			}
			return pages * uint64(pageSize), nil
		}
	}
	return 0, fmt.Errorf("sockstat: no TCP mem: %w", ErrFormat)
}

// SocketMemory is the answer to the socket option SO_MEMINFO, as linux/sock_diag.h orders it.
type SocketMemory [9]uint32

// Bytes is what the kernel holds for the socket's data, both ways, and its options: without the socket's own structure,
// which is about 2 KiB.
func (m SocketMemory) Bytes() uint64 {
	const (
		receive     = 0 // SK_MEMINFO_RMEM_ALLOC
		forward     = 4 // SK_MEMINFO_FWD_ALLOC: reserved ahead
		queued      = 5 // SK_MEMINFO_WMEM_QUEUED: to be sent, or sent and not acknowledged
		options     = 6 // SK_MEMINFO_OPTMEM
		backlog     = 7 // SK_MEMINFO_BACKLOG
		halfTheSpan = 1 << 31
	)
	var sum uint64
	for _, i := range []int{receive, forward, queued, options, backlog} {
		if m[i] < halfTheSpan { // the kernel's numbers are signed
			sum += uint64(m[i])
		}
	}
	return sum
}
