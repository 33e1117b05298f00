package command

import (
	"context"
	"regexp"
	"strings"

	"github.com/rtd-project/rtd/client"
)

// release is the version of a release, of which two with the same major and minor number know the same of each other.
var (
	release       = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	betweenCommit = regexp.MustCompile(`[.-][0-9]{14}-[0-9a-f]{12}$`) // a build from between two releases
)

// skewed reports whether two releases are not of one line. Other builds are their makers' affair.
func skewed(a, b string) bool {
	lineA, lineB := releaseLine(a), releaseLine(b)
	return lineA != "" && lineB != "" && lineA != lineB
}

// releaseLine is the "0.1" of "v0.1.3", "" for what is no release.
func releaseLine(version string) string {
	match := release.FindStringSubmatch(version)
	if match == nil || betweenCommit.MatchString(version) {
		return ""
	}
	return match[1]
}

// compareVersions says once if the daemon is of another release than rtctl. What else there may be to say of a daemon that does
// not answer is for the call that needs it.
func (a *app) compareVersions(ctx context.Context, c *client.Client) {
	if a.compared {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return
	}
	a.compared = true
	if own := readBuild().Version; skewed(own, info.GetVersion()) {
		a.complain("rtctl is " + own + " and the daemon " + info.GetVersion() + ": they may not know all of each other; use one release of both")
	}
}

// complain writes one line to stderr.
func (a *app) complain(what string) {
	line := strings.Join(strings.Fields(what), " ")
	if line == "" {
		return
	}
	if a.part != nil {
		line = a.part.name + ": " + line
	}
	_, _ = a.stderr.Write([]byte("rtctl: " + printable(line) + "\n"))
}
