package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// errProc is returned where there is no /proc: the figures of other processes are read there.
var errProc = errors.New("memory and CPU of a process can only be read on Linux")

// group is the processes of one group: a proxy may be several.
type group int

// processes lists the group's process IDs.
func (g group) processes() ([]string, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return nil, errProc
	}
	var pids []string
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; behind it come the state, the parent and the group.
		_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 2 && fields[2] == strconv.Itoa(int(g)) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("process group %d has ended", g)
	}
	return pids, nil
}

// rss is the resident memory of the group in bytes. Pages that its processes share count in each.
func (g group) rss() (sum uint64, err error) {
	pids, err := g.processes()
	for _, pid := range pids {
		data, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			return 0, err
		}
		n, err := rollup(data)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, err
}

// rollup reads the Rss line of smaps_rollup, which counts pages exactly; that of status is an estimate on many CPUs.
func rollup(data []byte) (uint64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "Rss:" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			return kib << 10, err
		}
	}
	return 0, errors.New("smaps_rollup has no Rss")
}

// cpu is the time that the group's threads have run on a CPU. What a thread has used that is over is not in it.
func (g group) cpu() (sum time.Duration, err error) {
	pids, err := g.processes()
	for _, pid := range pids {
		threads, err := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		if err != nil || len(threads) == 0 {
			return 0, errProc
		}
		for _, path := range threads {
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			first, _, _ := strings.Cut(string(data), " ")
			ns, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			sum += time.Duration(ns)
		}
	}
	return sum, err
}
