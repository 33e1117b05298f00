package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func start(t *testing.T) (*fake, *client.Client) {
	t.Helper()
	f, err := startFake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f, dial(t, f.socket)
}

func dial(t *testing.T, endpoint string) *client.Client {
	t.Helper()
	c, err := client.New(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits for a state that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestEndpoints(t *testing.T) {
	f := func(endpoint, want string) {
		t.Helper()
		if got := dial(t, endpoint).Endpoint(); got != want {
			t.Errorf("%q: got %q, want %q", endpoint, got, want)
		}
	}
	f("/run/x/rtd.sock", "/run/x/rtd.sock")
	f("unix:///run/x/rtd.sock", "/run/x/rtd.sock")
	f("unix:/run/x/rtd.sock", "/run/x/rtd.sock")
	f("relative/rtd.sock", "relative/rtd.sock")
	f("@abstract", "@abstract")
	t.Setenv("RTD_SOCKET", "/from/the/environment")
	f("", "/from/the/environment")
	for _, bad := range []string{"http://127.0.0.1:4002", "tcp://127.0.0.1", "tcp://127.0.0.1:1", "unix://", "unix:"} {
		if _, err := client.New(bad); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%q: got %v, want %v", bad, err, client.ErrInvalid)
		}
	}
}

func TestAuthorityIsLocalhost(t *testing.T) {
	f, c := start(t)
	if _, err := c.Pools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.authority, []string{"localhost"}) {
		t.Fatalf("the server sees :authority %q", f.authority)
	}
}

func TestErrorsOfTheDaemon(t *testing.T) {
	f, c := start(t)
	g := func(answer, want error, text string) {
		t.Helper()
		f.mu.Lock()
		f.fail = answer
		f.mu.Unlock()
		_, err := c.Pools(t.Context())
		if !errors.Is(err, want) {
			t.Fatalf("%v: got %v, want %v", answer, err, want)
		}
		if err.Error() != strings.ReplaceAll(text, "SOCKET", f.socket) {
			t.Fatalf("%v: reads %q, want %q", answer, err, text)
		}
	}
	g(status.Error(codes.InvalidArgument, "name one of a, b"), client.ErrInvalid, "name one of a, b")
	g(status.Error(codes.OutOfRange, "size 5000 is above 4096"), client.ErrInvalid, "size 5000 is above 4096")
	g(status.Error(codes.NotFound, "no pool\n\"x\""), client.ErrNotFound, `no pool "x"`)
	g(status.Error(codes.PermissionDenied, "uid 7 may only read"), client.ErrDenied, "uid 7 may only read")
	g(status.Error(codes.Unimplemented, "unknown method"), client.ErrUnsupported, "rtd at SOCKET does not know this call; upgrade it")
	g(status.Error(codes.Unimplemented, "unknown method ListPools for service rtd.v1.PoolService"), client.ErrUnsupported, "rtd at SOCKET does not know ListPools; upgrade it")
	g(status.Error(codes.Unavailable, "shutting down"), client.ErrStopped, "rtd at SOCKET is gone: shutting down")
	g(status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: read: use of closed network connection"`), client.ErrUnreachable,
		"rtd at SOCKET does not answer: it hangs, or something else listens there")
	internal := status.Error(codes.Internal, "broken")
	g(internal, internal, "rtd at SOCKET: broken")
}

func TestErrorsWithoutADaemon(t *testing.T) {
	dir := t.TempDir()
	g := func(path, text string) {
		t.Helper()
		_, err := dial(t, path).Pools(t.Context())
		if !errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), text) {
			t.Fatalf("got %v, want %v with %q", err, client.ErrUnreachable, text)
		}
	}
	missing := filepath.Join(dir, "m")
	g(missing, "no such socket")

	stale := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	g(stale, "nothing listens")

	g(filepath.Join(dir, strings.Repeat("x", 200)), "invalid argument")
}

// A daemon that takes connections and says nothing costs the caller its deadline and
// no more.
func TestSilentDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err = dial(t, path).Pools(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Fatalf("took %v", took)
	}
}

func TestClientSurvivesARestart(t *testing.T) {
	f, c := start(t)
	if _, err := c.Pools(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.server.Stop()
	<-f.done
	if _, err := c.Pools(t.Context()); err == nil {
		t.Fatal("no error without a daemon")
	}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	f.done = make(chan struct{})
	f.serve(l)
	eventually(t, "the client finds the new daemon", func() bool {
		_, err := c.Pools(t.Context())
		return err == nil
	})
}

func TestSessionsCrossPages(t *testing.T) {
	_, c := start(t)
	var got []string
	for s, err := range c.Sessions(t.Context(), "", rtdv1.SessionView_SESSION_VIEW_FULL) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.GetId())
	}
	if !slices.Equal(got, sessionIDs) {
		t.Fatalf("got %q", got)
	}
}

func TestLeavingAWatchEndsIt(t *testing.T) {
	f, c := start(t)
	n := 0
	for s, err := range c.WatchStats(t.Context(), time.Second) {
		if err != nil {
			t.Fatal(err)
		}
		if got := s.GetSessions().GetOpen(); got != uint32(n) {
			t.Fatalf("snapshot %d is %v", n, s)
		}
		if n++; n == 2 {
			break
		}
	}
	eventually(t, "the daemon sees the watch end", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.watchers == 0
	})
}

func TestEndsOfAWatch(t *testing.T) {
	g := func(want error, end func(f *fake, cancel func())) {
		t.Helper()
		f, c := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n, last := 0, error(nil)
		for _, err := range c.WatchStats(ctx, time.Second) {
			last = err
			if n++; n == 3 {
				end(f, cancel)
			}
		}
		if n != 4 || !errors.Is(last, want) {
			t.Fatalf("%d pairs, the last with %v, want %v", n, last, want)
		}
	}
	g(client.ErrStopped, func(f *fake, _ func()) { go f.server.Stop() })
	g(context.Canceled, func(_ *fake, cancel func()) { cancel() })
}

func TestDrain(t *testing.T) {
	_, c := start(t)
	g := func(timeout time.Duration, sent bool) {
		t.Helper()
		var steps []*rtdv1.DrainDaemonResponse
		for step, err := range c.Drain(t.Context(), timeout) {
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step)
		}
		if len(steps) != 2 || steps[1].GetState() != rtdv1.DaemonState_DAEMON_STATE_DRAINED {
			t.Fatalf("got %v", steps)
		}
		if left := steps[0].GetDrain().GetLeft(); (left != nil) != sent || (sent && left.AsDuration() != timeout) {
			t.Fatalf("timeout %v: the daemon got %v", timeout, left)
		}
	}
	g(client.DefaultGrace, false)
	g(0, true)
	g(3*time.Second, true)
}
