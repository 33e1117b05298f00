package daemon

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryGroup is the cgroup whose memory limit would be the first to hit this process.
type memoryGroup struct {
	dir   string
	files *memoryFiles
	limit uint64 // bytes; 0 is none
}

// memoryFiles names the files of one version of the memory controller.
type memoryFiles struct{ limit, usage, cache string }

var (
	groupV1 = memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	groupV2 = memoryFiles{"memory.max", "memory.current", "inactive_file"}
)

// noLimitV1 is at or below what version 1 shows for no limit: the largest number, rounded down to a page.
const noLimitV1 = math.MaxInt64 &^ 0xffff

// memoryGroups lists this process's cgroup and those around it, the innermost first, below root ("/" but in tests). None
// of them need exist.
func memoryGroups(root string) (groups []*memoryGroup) {
	list, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(list)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount, files := "sys/fs/cgroup", &groupV2
		switch {
		case id == "0" && controllers == "":
		case strings.Contains(","+controllers+",", ",memory,"):
			mount, files = "sys/fs/cgroup/memory", &groupV1
		default:
			continue
		}
		// In a container the mount may begin at the container's own group and not hold the whole path: then the way up
		// still ends at the right place.
		for ; ; group = path.Dir(group) {
			g := &memoryGroup{dir: filepath.Join(root, mount, group), files: files}
			if limit := g.read(files.limit); limit < noLimitV1 {
				g.limit = limit
			}
			groups = append(groups, g)
			if group == "/" || group == "." {
				break
			}
		}
	}
	return groups
}

// findMemoryGroup looks for the tightest limit of this process's cgroup and those around it. nil: there is none, or no
// cgroups.
func findMemoryGroup(root string) (tightest *memoryGroup) {
	for _, g := range memoryGroups(root) {
		if g.limit > 0 && (tightest == nil || g.limit < tightest.limit) {
			tightest = g
		}
	}
	return tightest
}

// chargedGroup is the innermost cgroup that says what it is charged, or nil.
func chargedGroup(root string) *memoryGroup {
	for _, g := range memoryGroups(root) {
		if g.read(g.files.usage) > 0 {
			return g
		}
	}
	return nil
}

// read reads a number; 0 for anything else, such as "max".
func (g *memoryGroup) read(file string) uint64 {
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// used is the group's memory in bytes that the kernel could not just drop.
func (g *memoryGroup) used() uint64 {
	used := g.read(g.files.usage)
	b, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	if err != nil {
		return used
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != g.files.cache {
			continue
		}
		if cache, err := strconv.ParseUint(value, 10, 64); err == nil && cache < used {
			used -= cache
		}
	}
	return used
}

// LimitMemory makes the garbage collector work harder before the memory limit of the cgroup is reached: at four fifths of
// it, since sockets count too. GOMEMLIMIT, when set, is left to have its way.
func LimitMemory() {
	if g := findMemoryGroup("/"); g != nil && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(g.limit / 5 * 4))
	}
}
