package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rtd-project/rtd/client"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// identified is session, with its id.
func (r *rig) identified(lines ...string) (*wiretest.Client, string) {
	r.t.Helper()
	c := wiretest.Dial(r.t, r.addr)
	c.SendString(wiretest.HSWith("", lines...))
	id := c.Expect101().Get("Rtd-Session-Id")
	c.ExpectText(wiretest.SessionCreated)
	return c, id
}

func TestSessionsAreListedInPages(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	var want []string
	for range 5 {
		_, id := r.identified()
		want = append(want, id)
	}
	slices.Sort(want)
	c := rtdv1.NewSessionServiceClient(r.grpc())
	f := func(size uint32, pool string, pages int, want []string) {
		t.Helper()
		var got []string
		req := &rtdv1.ListSessionsRequest{PageSize: size, Pool: pool}
		for n := 1; ; n++ {
			page := must(c.ListSessions(t.Context(), req))
			for _, s := range page.GetSessions() {
				got = append(got, s.GetId())
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				if n != pages || !slices.Equal(got, want) {
					t.Errorf("page size %d of pool %q: %v in %d pages, want %v in %d", size, pool, got, n, want, pages)
				}
				return
			}
		}
	}
	f(0, "", 1, want)
	f(2, "", 3, want)
	f(5, "up/mock", 1, want)
	f(1, r.pool().Key(), 5, want)
	f(0, "other", 1, nil)
	for range maxPage - 4 {
		_, id := r.identified()
		want = append(want, id)
	}
	slices.Sort(want)
	f(0, "", 2, want)
	f(1000, "", 2, want)
	f(99, "", 2, want)
}

// The basic view is the full one without what a list does not show.
func TestAListTellsOfASessionWhatItsViewSays(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	cl, _ := r.identified()
	cl.SendHex(wiretest.Hello)
	cl.ExpectText("Hello")
	c := rtdv1.NewSessionServiceClient(r.grpc())
	list := func(view rtdv1.SessionView) *rtdv1.Session {
		s := must(c.ListSessions(t.Context(), &rtdv1.ListSessionsRequest{View: view})).GetSessions()[0]
		s.Age, s.Quiet = nil, nil // one list is later than the other
		return s
	}
	all, basic := list(rtdv1.SessionView_SESSION_VIEW_UNSPECIFIED), list(rtdv1.SessionView_SESSION_VIEW_BASIC)
	if full := list(rtdv1.SessionView_SESSION_VIEW_FULL); !proto.Equal(all, full) {
		t.Errorf("without a view %v, the full one is %v", all, full)
	}
	if len(all.GetSetup()) == 0 || all.GetFirstFrame() == nil || all.GetStateBytes() == 0 || all.GetJitterUp() == nil || all.GetUsage() == nil {
		t.Errorf("the full view lacks something: %v", all)
	}
	all.Setup, all.Usage, all.FirstFrame, all.LastTurn, all.JitterUp, all.JitterDown, all.StateBytes = nil, nil, nil, nil, nil, nil, 0
	all.Responses.FirstText, all.Responses.Turn, all.Responses.Created = nil, nil, nil
	if !proto.Equal(all, basic) {
		t.Errorf("the basic view is %v, want %v", basic, all)
	}
	if _, err := c.ListSessions(t.Context(), &rtdv1.ListSessionsRequest{View: 7}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "view 7") {
		t.Errorf("view 7: %v", err)
	}
}

// What went past the pools is counted for the same target as what did not.
func TestABypassHasTheNameOfItsTarget(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	f := func(target, want string) {
		t.Helper()
		c := wiretest.Dial(t, r.addr)
		c.SendString(wiretest.HSWith(target))
		h := c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
		if got := must(r.control().Session(t.Context(), h.Get(headerSession))).GetTarget(); h.Get("Rtd-Pool") != "bypass" || got != want {
			t.Errorf("%s: %s of target %q, want a bypass of %q", target, h.Get("Rtd-Pool"), got, want)
		}
	}
	f("/v1/realtime?model=mock&voice=x", "up/mock")
	f("/v1/realtime?call_id=rtc_1", "up/call")
	f("/v1/realtime?intent=transcription&voice=x", "up/transcription")
}

func TestASessionDescribesItself(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	r.awaitIdle(1)
	c, id := r.identified()
	c.SendHex(wiretest.Hello)
	c.ExpectText("Hello")
	s := must(r.control().Session(t.Context(), id))
	if s.GetState() != rtdv1.SessionState_SESSION_STATE_OPEN || s.GetTarget() != "up/mock" || s.GetPoolKey() != r.pool().Key() || s.GetEnd() != nil ||
		s.GetResult() != rtdv1.PoolResult_POOL_RESULT_HIT || s.GetUpstreamSessionId() != "sess_1" || s.GetAgeAtTake() == nil || s.GetQuiet() == nil {
		t.Errorf("%v", s)
	}
	if up, down := s.GetUp(), s.GetDown(); up.GetFrames() != 1 || up.GetBytes() != 11 || down.GetMessages() != 2 {
		t.Errorf("up %v, down %v", up, down)
	}
	if _, err := r.control().Session(t.Context(), "nope"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestSessionsAreClosedOnDemand(t *testing.T) {
	closes := make(chan int, 10)
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		req := c.ReadRequest()
		c.SendString(wiretest.Switching(req) + string(c.Frame(true, wiretest.Text, []byte(wiretest.SessionCreated))))
		if f, err := c.TryReadFrame(); err == nil {
			code, _ := f.CloseCode()
			closes <- code
			_ = c.TrySend(c.Frame(true, wiretest.Close, f.Payload))
		}
	})
	r := startRig(t, up, 0)
	ctl := r.control()
	f := func(code uint32, want int) {
		t.Helper()
		c, id := r.identified()
		s, err := ctl.CloseSession(t.Context(), id, code, "enough")
		if err != nil || s.GetState() == rtdv1.SessionState_SESSION_STATE_OPEN {
			t.Errorf("close with %d: %v, %v", code, s, err)
		}
		c.ExpectClose(want)
		if got := <-closes; got != want {
			t.Errorf("the upstream got Close %d, want %d", got, want)
		}
	}
	f(0, 1001)
	f(1000, 1000)
	f(1013, 1013)

	c, id := r.identified()
	g := func(code uint32, reason string) {
		t.Helper()
		if _, err := ctl.CloseSession(t.Context(), id, code, reason); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("code %d, reason of %d bytes: %v", code, len(reason), err)
		}
	}
	for _, code := range []uint32{1, 999, 1004, 1005, 1006, 1010, 1015, 3000, 4000, 65536 + 1001, 1 << 31} {
		g(code, "")
	}
	g(1001, strings.Repeat("x", 124))
	if _, err := ctl.CloseSession(t.Context(), "nope", 0, ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("unknown session: %v", err)
	}
	if s := must(ctl.Session(t.Context(), id)); s.GetState() != rtdv1.SessionState_SESSION_STATE_OPEN {
		t.Errorf("after refused closes: %v", s)
	}
	c.SendClose(1000, "")
	c.ExpectClose(1000)
}

// A watcher is told of each session once, in order, and of the ends that a stop brings before it is sent away.
func TestWatchersSeeEverySessionBeginAndEnd(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 0)
	_, there := r.identified()
	stream := must(rtdv1.NewSessionServiceClient(r.grpc()).WatchSessions(t.Context(), &rtdv1.WatchSessionsRequest{}))
	f := func(event rtdv1.WatchSessionsResponse_Event, id string) *rtdv1.Session {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetEvent() != event || m.GetSession().GetId() != id {
			t.Fatalf("%v of %s, want %v of %s", m.GetEvent(), m.GetSession().GetId(), event, id)
		}
		return m.GetSession()
	}
	f(rtdv1.WatchSessionsResponse_EVENT_PRESENT, there)
	c, comes := r.identified()
	f(rtdv1.WatchSessionsResponse_EVENT_OPENED, comes)
	c.SendClose(1000, "bye")
	s := f(rtdv1.WatchSessionsResponse_EVENT_ENDED, comes)
	if e := s.GetEnd(); s.GetState() != rtdv1.SessionState_SESSION_STATE_ENDED || e.GetBy() != rtdv1.Party_PARTY_CLIENT || e.GetCode() != 1000 || e.GetReason() != "bye" {
		t.Errorf("ended: %v", s)
	}
	if s.GetUp() == nil || s.GetDown().GetMessages() != 1 || s.GetQuiet() != nil || s.GetAge().AsDuration() <= 0 {
		t.Errorf("ended: %v", s)
	}
	r.stop()
	s = f(rtdv1.WatchSessionsResponse_EVENT_ENDED, there)
	if s.GetEnd().GetBy() != rtdv1.Party_PARTY_GATEWAY || s.GetEnd().GetCode() != 1001 {
		t.Errorf("ended by the stop: %v", s)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestASlowWatcherIsToldWhatItMissed(t *testing.T) {
	var ws watchers
	w, _ := ws.add(newRegistry())
	for range watchBuffer + 3 {
		ws.opened(&session{})
	}
	for range watchBuffer {
		if e := <-w.events; e.dropped != 0 {
			t.Fatalf("%d dropped before the queue was full", e.dropped)
		}
	}
	ws.opened(&session{})
	ws.opened(&session{})
	if first, second := <-w.events, <-w.events; first.dropped != 3 || second.dropped != 0 {
		t.Errorf("dropped %d, then %d, want 3, then 0", first.dropped, second.dropped)
	}
	ws.remove(w)
	ws.opened(&session{})
	if len(w.events) != 0 {
		t.Error("an event after the watch ended")
	}
}
