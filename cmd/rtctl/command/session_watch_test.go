package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// WatchSessions sends the sessions there are, then the events of f, and goes on only if f is stuck.
func (f *fake) WatchSessions(_ *rtdv1.WatchSessionsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchSessionsResponse]) error {
	f.watching(1)
	defer f.watching(-1)
	f.mu.Lock()
	events := []*rtdv1.WatchSessionsResponse{}
	for _, s := range f.sessions {
		events = append(events, &rtdv1.WatchSessionsResponse{Event: rtdv1.WatchSessionsResponse_EVENT_PRESENT, Session: proto.CloneOf(s)})
	}
	events = append(events, f.events...)
	f.mu.Unlock()
	for {
		for _, e := range events {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if !f.stuck {
			return nil
		}
		events = f.events
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func watchedFake() *fake {
	f := newFake(warmPool())
	opened := newSessionMessage("s-4", "openai/gpt-realtime")
	opened.Result, opened.Age = rtdv1.PoolResult_POOL_RESULT_MISS, durationpb.New(2*time.Millisecond)
	ended := proto.CloneOf(opened)
	ended.State, ended.Age = rtdv1.SessionState_SESSION_STATE_ENDED, durationpb.New(3*time.Second)
	ended.End = &rtdv1.SessionEnd{By: rtdv1.Party_PARTY_CLIENT, Code: 1000, Reason: "bye\n\x1b[2J"}
	f.events = []*rtdv1.WatchSessionsResponse{
		{Event: rtdv1.WatchSessionsResponse_EVENT_OPENED, Session: opened},
		{Event: rtdv1.WatchSessionsResponse_EVENT_ENDED, Session: ended, Dropped: 1203},
	}
	return f
}

func TestSessionWatchScreens(t *testing.T) {
	wallClock = func() time.Time { return noon }
	t.Cleanup(func() { wallClock = time.Now })
	golden(t, "session-watch.txt", serve(t, watchedFake()))
}

// What a filter keeps back does not hide that events were lost.
func TestAFilteredWatchStillTellsOfDroppedEvents(t *testing.T) {
	f := watchedFake()
	f.events[0].Dropped, f.events[1].Dropped = 2, 3
	serve(t, f)
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), []string{"--endpoint", f.socket, "session", "watch", "--state", "ended", "-o", "json"}, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	var doc sessionEventDocument
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil || doc.Event != "ended" || doc.Dropped != 5 {
		t.Errorf("%+v: %v", doc, err)
	}
}

func TestCaseN1ASessionWatchWithoutAReaderEnds(t *testing.T) {
	g := func(args ...string) {
		t.Helper()
		f := watchedFake()
		f.stuck = true
		serve(t, f)
		cmd := process(t, f, append([]string{"session", "watch"}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for range 5 {
			if !lines.Scan() {
				t.Fatalf("%q ended early: %s", args, &stderr)
			}
			if len(args) > 0 && !json.Valid(lines.Bytes()) {
				t.Fatalf("not a line of JSON: %s", lines.Text())
			}
		}
		closed := time.Now()
		out.Close()
		err = cmd.Wait()
		if took := time.Since(closed); took > 10*time.Second {
			t.Errorf("%q went on for %v", args, took)
		}
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && status.Signal() != syscall.SIGPIPE {
			t.Errorf("%q: %v", args, err)
		}
		if stderr.Len() > 0 {
			t.Errorf("%q says %s", args, &stderr)
		}
		f.waitClean(t)
	}
	g()
	g("-o", "json")
}

func TestASessionWatchEndsWithTheDaemon(t *testing.T) {
	f := watchedFake()
	f.stuck, f.events = true, nil
	serve(t, f)
	cmd := process(t, f, "session", "watch")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("no first line: %s", &stderr)
	}
	f.server.Stop()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != exitFailed || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("status %d, %q", status, &stderr)
	}
}

func TestSessionListOrders(t *testing.T) {
	var sessions []*rtdv1.Session
	for i, age := range []time.Duration{3, 1, 2, 2} {
		sessions = append(sessions, &rtdv1.Session{
			Id: fmt.Sprint(i), Age: durationpb.New(age * time.Second), Model: string("bacc"[i]), KeyName: string("zyxx"[i]),
			HeldBytes: uint64(age), Up: &rtdv1.Flow{Bytes: uint64(4 - age)},
		})
	}
	g := func(name string, reverse bool, want string) {
		t.Helper()
		list := append([]*rtdv1.Session{}, sessions...)
		if err := sortSessions(list, name, reverse); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range list {
			got += s.GetId()
		}
		if got != want {
			t.Errorf("%s, reverse %t: %s, want %s", name, reverse, got, want)
		}
	}
	g("id", false, "0123")
	g("age", false, "0231")
	g("age", true, "1320")
	g("held", false, "0231")
	g("bytes", false, "1230")
	g("model", false, "1023")
	g("key", false, "2310")
	for _, name := range listOrderNames {
		if listOrders[name] == nil {
			t.Errorf("there is no order %s", name)
		}
	}
	if len(listOrders) != len(listOrderNames) {
		t.Errorf("%d orders, %d names", len(listOrders), len(listOrderNames))
	}
}
