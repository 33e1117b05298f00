package command

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// versionTimeout bounds the look at the daemon, which is a courtesy here.
const versionTimeout = time.Second

type versionDocument struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"go_version"`
}

type versionsDocument struct {
	Rtctl versionDocument  `json:"rtctl"`
	Rtd   *versionDocument `json:"rtd"` // null: none answers
}

// readBuild says what this program was built from; a variable for the golden tests.
var readBuild = func() versionDocument {
	build := versionDocument{Version: "devel", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build
	}
	if version := info.Main.Version; version != "" && version != "(devel)" {
		build.Version = version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			build.Commit = setting.Value
		}
	}
	return build
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of rtctl and of the daemon, if one answers",
		Example: `  rtctl version
  rtctl version -o json | jq -r .rtd.version`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc := versionsDocument{Rtctl: readBuild()}
			ctx, cancel := context.WithTimeout(cmd.Context(), versionTimeout)
			defer cancel()
			info, err := call(ctx, a, func(ctx context.Context, c *client.Client) (*rtdv1.DaemonInfo, error) {
				return c.Info(ctx)
			})
			f := &fields{}
			f.add("rtctl", "%s", buildLine(doc.Rtctl.Version, doc.Rtctl.Commit, doc.Rtctl.GoVersion))
			if err == nil {
				doc.Rtd = &versionDocument{info.GetVersion(), info.GetCommit(), info.GetGoVersion()}
				f.add("rtd", "%s", buildLine(doc.Rtd.Version, doc.Rtd.Commit, doc.Rtd.GoVersion))
			} else {
				f.add("rtd", "%s", err)
			}
			if a.part != nil {
				t := newTable("RTCTL", "RTD")
				t.add(f.values...)
				return a.emit(doc, t)
			}
			return a.emit(doc, f)
		},
	}
}

// buildLine is a version for people: "v0.1.0 (0123456789ab, go1.26.0)".
func buildLine(version, commit, goVersion string) string {
	var origin []string
	for _, part := range []string{commit[:min(len(commit), 12)], goVersion} {
		if part != "" {
			origin = append(origin, part)
		}
	}
	if len(origin) == 0 {
		return version
	}
	return version + " (" + strings.Join(origin, ", ") + ")"
}
