package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// tree writes files below a new root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheTightestMemoryLimitCounts(t *testing.T) {
	f := func(name string, limit, used uint64, files map[string]string) {
		t.Helper()
		g := findMemoryGroup(tree(t, files))
		switch {
		case limit == 0 && g == nil:
		case g == nil || g.limit != limit || g.used() != used:
			t.Errorf("%s: %+v, want a limit of %d", name, g, limit)
		}
	}
	f("none", 0, 0, nil)
	f("version 2, a container", 1000, 600, map[string]string{
		"proc/self/cgroup":             "0::/\n",
		"sys/fs/cgroup/memory.max":     "1000\n",
		"sys/fs/cgroup/memory.current": "700\n",
		"sys/fs/cgroup/memory.stat":    "anon 5\ninactive_file 100\nactive_file 7\n",
	})
	f("version 2, a service in a limited slice", 500, 300, map[string]string{
		"proc/self/cgroup":                                  "0::/system.slice/rtd.service\n",
		"sys/fs/cgroup/system.slice/memory.max":             "500\n",
		"sys/fs/cgroup/system.slice/memory.current":         "300\n",
		"sys/fs/cgroup/system.slice/rtd.service/x":          "",
		"sys/fs/cgroup/system.slice/rtd.service/max":        "1",
		"sys/fs/cgroup/system.slice/rtd.service/memory.max": "max\n",
	})
	f("version 2, no limit", 0, 0, map[string]string{
		"proc/self/cgroup":         "0::/a\n",
		"sys/fs/cgroup/memory.max": "max\n",
	})
	f("version 1", 1000, 600, map[string]string{
		"proc/self/cgroup": "12:cpu,cpuacct:/a\n5:memory:/a/b\n1:name=systemd:/a\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "9223372036854771712\n",
		"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "1000\n",
		"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "700\n",
		"sys/fs/cgroup/memory/a/b/memory.stat":           "inactive_file 1\ntotal_inactive_file 100\n",
	})
	f("version 1 seen from inside a container", 1000, 700, map[string]string{
		"proc/self/cgroup":                           "5:memory:/docker/0123\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "700\n",
	})
	f("rubbish", 0, 0, map[string]string{
		"proc/self/cgroup":         "\n::\n0\n0::\n:memory:\n",
		"sys/fs/cgroup/memory.max": "-1\n",
	})
}

func TestTheMemoryGuardReadsRarely(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/self/cgroup":             "0::/\n",
		"sys/fs/cgroup/memory.max":     "1000\n",
		"sys/fs/cgroup/memory.current": "899\n",
	})
	g := &memoryGuard{group: findMemoryGroup(root)}
	if g.over(0) {
		t.Error("899 of 1000 are in use")
	}
	if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup/memory.current"), []byte("900\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g.over(0) {
		t.Error("it was read again at once")
	}
	g.read.Store(0) // as if memoryAge had passed
	if !g.over(0) {
		t.Error("900 of 1000 are in use")
	}
	g.read.Store(0)
	if g.over(1 << 50) {
		t.Error("the resident set is below a limit of its own")
	}
	if (&memoryGuard{}).over(0) {
		t.Error("there is no limit")
	}
	if n := testing.AllocsPerRun(100, func() { g.over(1 << 50) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
