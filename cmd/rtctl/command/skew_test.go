package command

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func TestSkew(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if got := skewed(a, b); got != want {
			t.Errorf("%s and %s differ: %t", a, b, got)
		}
	}
	f("v0.1.0", "v0.1.9", false)
	f("v0.1.0", "v0.2.0", true)
	f("v1.0.0", "v0.1.0", true)
	f("0.1.0", "v0.1.0", false)
	f("v0.2.0-rc.1", "v0.1.0", true)
	f("v0.2.0-rc.1", "v0.2.0", false)
	f("devel", "v0.1.0", false)
	f("", "v0.1.0", false)
	f("v0.0.0-20261130101112-0123456789ab", "v0.1.0", false)
	f("v0.2.1-0.20261130101112-0123456789ab", "v0.1.0", false)
	f("v0.2.0+dirty", "v0.1.0", false)
}

// oldFake is a daemon of before there was a recycle.
type oldFake struct{ *fake }

func (oldFake) RecyclePool(context.Context, *rtdv1.RecyclePoolRequest) (*rtdv1.RecyclePoolResponse, error) {
	return nil, status.Error(codes.Unimplemented, "unknown method RecyclePool for service rtd.v1.PoolService")
}

func TestADaemonOfAnotherRelease(t *testing.T) {
	f := newFake(warmPool())
	f.info = proto.CloneOf(f.info)
	f.info.Version = "v0.0.9"
	f.poolServer = oldFake{f}
	serveAs(t, "old", f)
	g := func(status int, lines []string, args ...string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		got := execute(t.Context(), append(args, "--endpoint", f.socket), &stdout, &stderr)
		if want := strings.Join(lines, "\n") + "\n"; got != status || strings.ReplaceAll(stderr.String(), f.socket, "SOCKET") != want {
			t.Errorf("%q: status %d, stderr %q, want %q", args, got, &stderr, want)
		}
		if status == 0 && stdout.Len() == 0 {
			t.Errorf("%q: no output", args)
		}
	}
	skew := "rtctl: rtctl is v0.1.0 and the daemon v0.0.9: they may not know all of each other; use one release of both"
	g(0, []string{skew}, "pool", "list")
	g(0, []string{skew}, "ready", "--timeout", "1s")
	g(0, []string{skew}, "version")
	g(1, []string{skew, "rtctl: rtd at SOCKET (v0.0.9) does not know RecyclePool; upgrade it"}, "pool", "recycle")
}
