package daemon

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/gobwas/ws"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// mayMint are the close codes that rtd sends of its own accord: SDKs do not retry the others.
var mayMint = map[uint32]bool{1000: true, 1001: true, 1002: true, 1007: true, 1008: true, 1009: true, 1011: true, 1012: true, 1013: true}

// maxCloseReason is what a Close frame holds beside its code, in bytes (RFC 6455 §5.5).
const maxCloseReason = ws.MaxControlFramePayloadSize - 2

// maxPage bounds the sessions of one answer. They are described atOnce in a row, about 0.1 ms of work, with a rest between:
// frames do not wait for a whole list.
const (
	maxPage = 100
	atOnce  = 32
	rest    = time.Millisecond
)

// sessionService adapts the registry to gRPC.
type sessionService struct {
	rtdv1.UnimplementedSessionServiceServer
	d *Daemon
}

func (s *sessionService) ListSessions(_ context.Context, req *rtdv1.ListSessionsRequest) (*rtdv1.ListSessionsResponse, error) {
	size := int(req.GetPageSize())
	if size == 0 || size > maxPage {
		size = maxPage
	}
	view := req.GetView()
	if _, known := rtdv1.SessionView_name[int32(view)]; !known {
		return nil, status.Errorf(codes.InvalidArgument, "view %d: give 1, basic, or 2, full", view)
	}
	all := s.d.sessions.list() // by id, so that the last id of a page is where the next one goes on
	all = all[sort.Search(len(all), func(i int) bool { return all[i].id > req.GetPageToken() }):]
	resp := &rtdv1.ListSessionsResponse{}
	var page []*session
	for _, one := range all {
		if p := req.GetPool(); p != "" && (one.pool == nil || p != one.pool.Name() && p != one.pool.Key()) {
			continue
		}
		if len(page) == size {
			resp.NextPageToken = page[size-1].id
			break
		}
		page = append(page, one)
	}
	for some := range slices.Chunk(page, atOnce) {
		if len(resp.Sessions) > 0 {
			time.Sleep(rest)
		}
		resp.Sessions = append(resp.Sessions, messages(some, view)...)
	}
	return resp, nil
}

func (s *sessionService) GetSession(_ context.Context, req *rtdv1.GetSessionRequest) (*rtdv1.GetSessionResponse, error) {
	one, err := s.find(req.GetId())
	if err != nil {
		return nil, err
	}
	return &rtdv1.GetSessionResponse{Session: one.message()}, nil
}

func (s *sessionService) CloseSession(_ context.Context, req *rtdv1.CloseSessionRequest) (*rtdv1.CloseSessionResponse, error) {
	one, err := s.find(req.GetId())
	if err != nil {
		return nil, err
	}
	code := orDefault(req.GetCode(), uint32(ws.StatusGoingAway))
	if !mayMint[code] {
		return nil, status.Errorf(codes.InvalidArgument, "close code %d: give 1000, 1001, 1002, 1007, 1008, 1009, 1011, 1012 or 1013", code)
	}
	if n := len(req.GetReason()); n > maxCloseReason {
		return nil, status.Errorf(codes.InvalidArgument, "reason: %d bytes; at most %d fit", n, maxCloseReason)
	}
	one.leaving.Store(true)
	one.upstream.relay.Close(ws.StatusCode(code), req.GetReason())
	s.d.log.Info("session closed by an operator", "session", one.id, "code", code, "reason", req.GetReason())
	return &rtdv1.CloseSessionResponse{Session: one.message()}, nil
}

func (s *sessionService) WatchSessions(_ *rtdv1.WatchSessionsRequest, stream grpc.ServerStreamingServer[rtdv1.WatchSessionsResponse]) error {
	w, present := s.d.watchers.add(s.d.sessions)
	defer s.d.watchers.remove(w)
	for _, one := range messages(present, rtdv1.SessionView_SESSION_VIEW_FULL) {
		m := &rtdv1.WatchSessionsResponse{Event: rtdv1.WatchSessionsResponse_EVENT_PRESENT, Session: one}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	send := func(e sessionEvent) error {
		return stream.Send(&rtdv1.WatchSessionsResponse{Event: e.kind, Session: e.session.message(), Dropped: e.dropped})
	}
	for {
		select {
		case e := <-w.events:
			if err := send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			for len(w.events) > 0 { // a stop ends every session: the watcher hears of it first
				if err := send(<-w.events); err != nil {
					return err
				}
			}
			return streamEnd(stream.Context())
		}
	}
}

func (s *sessionService) find(id string) (*session, error) {
	if one := s.d.sessions.get(id); one != nil {
		return one, nil
	}
	return nil, status.Errorf(codes.NotFound, "no open session %q; rtctl session list shows the open ones", id)
}

// look is what the poller of a session shows of it.
type look struct {
	progress progress
	counters relay.Counters
	at       time.Duration // on the relay's clock
	end      *ending       // nil while it lives
}

// looks looks at sessions as they are now; those that live show themselves on their pollers.
func looks(sessions []*session) []look {
	seen := make([]look, len(sessions))
	var live []*relay.Session
	var places []int
	for n, s := range sessions {
		if s.over.Load() {
			seen[n] = look{progress: s.progress.copy(), end: s.end}
			continue
		}
		live, places = append(live, s.upstream.relay), append(places, n)
	}
	relay.InspectEach(live, func(n int, at time.Duration, c relay.Counters) {
		s := sessions[places[n]]
		seen[places[n]] = look{s.progress.copy(), c, at, s.end}
	})
	for n := range seen {
		if l := &seen[n]; l.end != nil {
			l.counters = l.end.Counters
		}
	}
	return seen
}

// age is the time since the client was accepted, up to the end.
func (s *session) age(l look) time.Duration {
	if l.end != nil {
		return l.end.at.Sub(s.accepted)
	}
	return time.Since(s.accepted)
}

func (s *session) state(l look) rtdv1.SessionState {
	switch {
	case l.end != nil:
		return rtdv1.SessionState_SESSION_STATE_ENDED
	case s.leaving.Load():
		return rtdv1.SessionState_SESSION_STATE_CLOSING
	case s.ready.Load() == 0:
		return rtdv1.SessionState_SESSION_STATE_CONNECTING
	}
	return rtdv1.SessionState_SESSION_STATE_OPEN
}

// message describes the session as it is now.
func (s *session) message() *rtdv1.Session {
	return messages([]*session{s}, rtdv1.SessionView_SESSION_VIEW_FULL)[0]
}

// messages describes sessions as they are now, in their order.
func messages(sessions []*session, view rtdv1.SessionView) []*rtdv1.Session {
	seen := looks(sessions)
	list := make([]*rtdv1.Session, len(sessions))
	for n, s := range sessions {
		list[n] = s.describe(seen[n])
		if view != rtdv1.SessionView_SESSION_VIEW_BASIC {
			s.detail(list[n], seen[n])
		}
	}
	return list
}

// describe is the basic view.
func (s *session) describe(now look) *rtdv1.Session {
	m := &rtdv1.Session{
		Id: s.id, State: s.state(now), Target: s.target(), Result: poolResults[s.result],
		ClientAddress: s.client.String(), UpstreamSessionId: s.upstream.info.ID,
		AcceptedAt: timestamppb.New(s.accepted), Age: durationpb.New(s.age(now)),
		Up: flowOf(now, relay.Up), Down: flowOf(now, relay.Down),
		HeldBytes: uint64(now.counters.Held),
		KeyName:   s.key, RequestId: s.daemon.redact.String(s.requestID), Model: s.model,
		Responses: now.progress.responsesMessage(),
	}
	if p := s.upstream.preset; p != nil {
		m.Preset = p.Name
	}
	if s.bypassed != nil {
		m.BypassReason = s.bypassed.reason
	}
	if s.pool != nil {
		m.PoolKey = s.pool.Key()
	}
	if heard := time.Duration(s.heard.Load()); now.end == nil && heard > 0 {
		m.Quiet = durationpb.New(max(0, now.at-heard))
	}
	if s.result == stats.Hit {
		m.AgeAtTake = durationpb.New(s.lease.Age())
	}
	if !s.upstream.info.ExpiresAt.IsZero() {
		m.ExpiresAt = timestamppb.New(s.upstream.info.ExpiresAt)
	}
	if e := now.end; e != nil {
		m.End = &rtdv1.SessionEnd{By: parties[e.By], Code: uint32(e.Code), Reason: e.Reason}
		if e.Err != nil {
			m.End.Error = s.daemon.redact.String(e.Err.Error())
		}
	}
	return m
}

var parties = map[relay.Side]rtdv1.Party{
	relay.ByClient:   rtdv1.Party_PARTY_CLIENT,
	relay.ByUpstream: rtdv1.Party_PARTY_UPSTREAM,
	relay.ByGateway:  rtdv1.Party_PARTY_GATEWAY,
}

// target names the upstream target as its pool does, or would if it were not past the pools.
func (s *session) target() string {
	if s.pool != nil {
		return s.pool.Name()
	}
	return s.bypassed.target
}

// setup lists the phases from accept to the 101 that happened for this client.
func (s *session) setup() []*rtdv1.PhaseTime {
	var list []*rtdv1.PhaseTime
	add := func(p stats.Phase, d time.Duration) {
		if d > 0 {
			list = append(list, &rtdv1.PhaseTime{Phase: phases[p], Duration: durationpb.New(d)})
		}
	}
	add(stats.PhaseAccept, s.admitted)
	if s.lease != nil {
		add(stats.PhasePoolWait, s.lease.Wait())
	}
	if s.result != stats.Hit {
		t := s.upstream.timing
		add(stats.PhaseDNS, t.DNS)
		add(stats.PhaseTCP, t.TCP)
		add(stats.PhaseTLS, t.TLS)
		add(stats.PhaseUpgrade, t.Upgrade)
		add(stats.PhaseDial, s.upstream.dialTime())
		add(stats.PhaseUpstreamReady, s.upstream.ready)
	}
	add(stats.PhaseReady, time.Duration(s.ready.Load()))
	return list
}

func flowOf(now look, dir relay.Dir) *rtdv1.Flow {
	c, held := now.counters, now.progress.added[dir]
	return &rtdv1.Flow{
		Frames: c.Frames[dir], Messages: c.Messages[dir], Bytes: c.Bytes[dir], PingsAnswered: c.PingsAnswered[dir],
		AddedTotal: durationpb.New(held.total), AddedMax: durationpb.New(held.max), Chunks: uint64(held.count),
	}
}
