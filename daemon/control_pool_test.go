package daemon

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// unset names the fields of m that hold nothing.
func unset(m protoreflect.Message) (names []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			names = append(names, string(f.Name()))
		} else if f.Message() != nil && !f.IsMap() && strings.HasPrefix(string(f.Message().FullName()), "rtd.") {
			names = append(names, unset(m.Get(f).Message())...)
		}
	}
	return names
}

// busyPool is a look at a pool of which every figure is another.
func busyPool(now time.Time) pool.Stats {
	s := pool.Stats{
		Key: "k", Name: "n", Size: 11, MaxSize: 12, MaxConnections: 13, MaxDialing: 14, Paused: true,
		Idle: 15, Due: 16, Dialing: 17, Waiting: 18, Active: 19, Closing: 20,
		Blocked: pool.SkipBackoff, BackoffTill: now.Add(21 * time.Second), Failures: 22, Concurrency: 23,
		Oldest: 24 * time.Second, Youngest: 25 * time.Second, NextRetirement: now.Add(26 * time.Second),
	}
	s.Takes, s.Hits, s.Misses, s.Dials = 27, 28, 29, 30
	s.DialsFailed[pool.ClassAuth], s.Evicted[pool.ReasonAge], s.Skipped[pool.SkipBackoff] = 31, 32, 33
	s.LastError, s.LastErrorAt = &pool.DialError{Class: pool.ClassAuth, Err: errors.New("401")}, now.Add(-34*time.Second)
	return s
}

func TestEveryFieldOfABusyPoolIsFilled(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := renderPool(busyPool(now), served{url: "ws://up/v1", preset: "support"}, now, strings.ToUpper)
	if names := unset(m.ProtoReflect()); len(names) > 0 {
		t.Errorf("never filled: %v", names)
	}
	f := func(name string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	f("target", m.GetTarget(), "ws://up/v1")
	f("preset", m.GetPreset(), "support")
	f("size", m.GetSize(), uint32(11))
	f("max_size", m.GetMaxSize(), uint32(12))
	f("max_connections", m.GetMaxConnections(), uint32(13))
	f("max_dialing", m.GetMaxDialing(), uint32(14))
	f("idle", m.GetIdle(), uint32(15))
	f("recycling", m.GetRecycling(), uint32(16))
	f("dialing", m.GetDialing(), uint32(17))
	f("waiting", m.GetWaiting(), uint32(18))
	f("active", m.GetActive(), uint32(19))
	f("closing", m.GetClosing(), uint32(20))
	f("blocked", m.GetBlocked(), "backoff")
	f("next attempt", m.GetBackoff().GetNextAttemptIn().AsDuration(), 21*time.Second)
	f("back-off class", m.GetBackoff().GetClass(), "auth")
	f("failures_in_row", m.GetFailuresInRow(), uint32(22))
	f("dial_limit", m.GetDialLimit(), uint32(23))
	f("oldest_age", m.GetOldestAge().AsDuration(), 24*time.Second)
	f("youngest_age", m.GetYoungestAge().AsDuration(), 25*time.Second)
	f("next_retirement_in", m.GetNextRetirementIn().AsDuration(), 26*time.Second)
	f("takes", m.GetTakes(), uint64(27))
	f("hits", m.GetHits(), uint64(28))
	f("misses", m.GetMisses(), uint64(29))
	f("dials", m.GetDials(), uint64(30))
	f("dials_failed", m.GetDialsFailed(), map[string]uint64{"auth": 31})
	f("evicted", m.GetEvicted(), map[string]uint64{"age": 32})
	f("skipped", m.GetSkipped(), map[string]uint64{"backoff": 33})
	f("last failure", m.GetLastFailure().GetClass(), "auth")
	f("its age", m.GetLastFailure().GetAge().AsDuration(), 34*time.Second)
	if text := m.GetLastFailure().GetMessage(); text == "" || text != strings.ToUpper(text) {
		t.Errorf("the text of the failure is not redacted: %q", text)
	}
}

func TestAQuietPoolClaimsNothing(t *testing.T) {
	m := renderPool(pool.Stats{Key: "k", Name: "n"}, served{}, time.Now(), strings.ToUpper)
	if m.Backoff != nil || m.LastFailure != nil || m.OldestAge != nil || m.YoungestAge != nil || m.NextRetirementIn != nil || m.GetBlocked() != "" {
		t.Errorf("%v", m)
	}
	past := pool.Stats{NextRetirement: time.Unix(1, 0), BackoffTill: time.Unix(1, 0), Counters: pool.Counters{LastError: &pool.DialError{}}}
	m = renderPool(past, served{}, time.Now(), strings.ToUpper)
	if m.GetNextRetirementIn().AsDuration() != 0 || m.GetBackoff().GetNextAttemptIn().AsDuration() != 0 {
		t.Errorf("a time that has passed is negative: %v", m)
	}
}

// A pool whose upstream refuses the key explains itself over the socket.
func TestAPoolExplainsItsBackoff(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: 40\r\n\r\n" + `{"error":{"message":"` + testKey + `"}}` + "\n")
	})
	r := startRig(t, up, 4, func(c *Config) { c.Routes[0].Pool.AuthBackoff = time.Minute })
	r.await("refused dials", func() bool { s := r.pool().Stats(); return s.Dialing == 0 && s.DialsFailed[pool.ClassAuth] > 0 })
	p := must(r.control().Pool(t.Context(), ""))
	if p.GetBlocked() != "backoff" || p.GetBackoff().GetClass() != "auth" || p.GetFailuresInRow() != 1 || p.GetDialLimit() != 1 || p.GetMaxDialing() != 16 {
		t.Errorf("%v", p)
	}
	if d := p.GetBackoff().GetNextAttemptIn().AsDuration(); d <= 50*time.Second || d > time.Minute {
		t.Errorf("next attempt in %v", d)
	}
	if text := p.GetLastFailure().GetMessage(); !strings.Contains(text, "401") || strings.Contains(text, testKey) {
		t.Errorf("last failure %q", text)
	}
	if want := up.URL().String() + "/v1/realtime?model=mock"; p.GetTarget() != want {
		t.Errorf("target %q, want %q", p.GetTarget(), want)
	}
}
