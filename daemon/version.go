package daemon

import (
	"runtime"
	"runtime/debug"
)

// Build says what was built, from what and with what.
type Build struct {
	Version string // of the module; "devel" outside a release
	Commit  string // "" where the build did not record it
	Go      string
}

// ReadBuild reads what the linker recorded.
func ReadBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}
