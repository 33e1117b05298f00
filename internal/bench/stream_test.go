package bench

import (
	"context"
	"encoding/base64"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
)

func TestStreamBringsEveryChunkThereAndBack(t *testing.T) {
	s := serveSim(t, sim.Config{Echo: true})
	r, err := Stream(t.Context(), StreamConfig{Target: target(t, "target", s.URL()), Sessions: 5, Period: 20 * time.Millisecond, Duration: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	want := Flow{Sent: 125, Arrived: 125}
	if r.Opened != 5 || len(r.Failures) > 0 || r.Up != want || r.Down != want {
		t.Errorf("opened %d, failures %v, up %+v, down %+v", r.Opened, r.Failures, r.Up, r.Down)
	}
	for name, f := range map[string]Figures{"up from due": r.UpFromDue, "up from sent": r.UpFromSent, "down": r.DownFromSent, "round": r.Round, "late": r.Late} {
		if f.Count != 125 || f.Min > slack {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if r.UpJitter.Count != 120 || r.UpFromSent.P50 > r.UpFromDue.P50 || r.Round.Max < r.DownFromSent.Max {
		t.Errorf("jitter of %d gaps, up %v ms from sent and %v ms from due", r.UpJitter.Count, r.UpFromSent.P50, r.UpFromDue.P50)
	}
	if n := s.Stats(); n.AudioMessages != 125 || n.AudioBytesIn != 125*960 || n.Turns != 0 || n.ErrorsSent != 0 {
		t.Errorf("the upstream counted %+v", n)
	}
}

func TestStreamThroughASlowRelay(t *testing.T) {
	s := serveSim(t, sim.Config{Echo: true})
	r, err := Stream(t.Context(), StreamConfig{Target: target(t, "target", "ws://"+relay(t, s.URL(), 5*time.Millisecond)), Sessions: 2, Duration: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.DownFromSent.Min < 5 || r.DownFromSent.Min > 5+slack || r.UpFromSent.Min > 5 || r.Down.Lost > 0 {
		t.Errorf("down from %v ms, up from %v ms, %+v; the relay delays the way down by 5 ms", r.DownFromSent.Min, r.UpFromSent.Min, r.Down)
	}
}

func TestStreamCountsSessionsThatDoNotOpen(t *testing.T) {
	rule, err := sim.ParseRule("status=503,first=1")
	if err != nil {
		t.Fatal(err)
	}
	s := serveSim(t, sim.Config{Echo: true, Fail: []sim.Rule{rule}})
	r, err := Stream(t.Context(), StreamConfig{Target: target(t, "target", s.URL()), Sessions: 3, Duration: 40 * time.Millisecond})
	if err != nil || r.Opened != 2 || r.Failures["dial: status 503 Service Unavailable"] != 1 || r.Up.Sent != 4 {
		t.Errorf("%v: %+v", err, r)
	}
	for _, cfg := range []StreamConfig{{Sessions: -1}, {Period: 1500 * time.Microsecond}, {Duration: time.Millisecond}} {
		if _, err := Stream(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), ErrConfig.Error()) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// freezer is an upstream at the end of a pipe that echoes stamps and, for a while, reads nothing.
func freezer(c net.Conn, from, to time.Duration) {
	s, start, echo := &socketServer{conn: c}, time.Now(), uint32(0)
	for {
		stall(start, from, to)
		text, err := s.read()
		if err != nil {
			return
		}
		_, audio, _ := strings.Cut(text, `"audio":"`)
		pcm, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(audio, `"}`))
		stamp, ok := sim.ReadStamp(pcm)
		if err != nil || !ok {
			return
		}
		stamp.Arrived, stamp.Echo = time.Now().UnixNano(), echo
		echo++
		stamp.Put(pcm)
		text = `{"type":"response.output_audio.delta","delta":"` + base64.StdEncoding.EncodeToString(pcm) + `"}`
		if _, err := c.Write(appendText(nil, text)); err != nil {
			return
		}
	}
}

// The microphone cannot write while the upstream is frozen, and its chunks count from when they were due all the same.
func TestCaseO1AFrozenUpstreamCountsForEveryChunkThatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go freezer(server, 4*time.Second, 6*time.Second)
		m := newMicrophone(0, &socket{conn: client, buf: make([]byte, 8<<10)}, 10*time.Millisecond, 1000)
		if err := m.run(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		up := &m.track.times.upDue
		for _, want := range []struct{ q, seconds float64 }{{0.9, 1}, {0.95, 1.5}, {0.99, 1.9}, {1, 2}} {
			if got := up.Quantile(want.q); !within(got, time.Duration(want.seconds*1e9)) {
				t.Errorf("quantile %v from due is %v, want %v s", want.q, got, want.seconds)
			}
		}
		if got := up.Quantile(0.5); got >= 10*time.Millisecond || up.Count() != 1000 {
			t.Errorf("the median of %d is %v", up.Count(), got)
		}
		// What a generator sees that asks only how long a write took: one chunk that waited for two seconds.
		if got := m.track.times.upSent.Quantile(0.99); got > 10*time.Millisecond {
			t.Errorf("from the actual write the p99 is %v", got)
		}
		if up, down := m.track.flows(1000); up != (Flow{Sent: 1000, Arrived: 1000}) || up != down {
			t.Errorf("up %+v, down %+v", up, down)
		}
	})
}

// The same over real sockets and in real time, a tenth as long. The kernel takes what the upstream does not read.
func TestCaseO1OverRealSockets(t *testing.T) {
	addr := listen(t, func(c net.Conn) { freezer(c, 400*time.Millisecond, 600*time.Millisecond) })
	client, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	m := newMicrophone(0, &socket{conn: client, buf: make([]byte, 8<<10)}, 2*time.Millisecond, 500)
	if err := m.run(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	up := &m.track.times.upDue
	for _, want := range []struct{ q, ms float64 }{{0.9, 100}, {0.95, 150}, {0.99, 190}, {1, 200}} {
		if got := ms(up.Quantile(want.q)); got < 0.9*want.ms || got > want.ms+5*slack { // others on the machine only make it later
			t.Errorf("quantile %v from due is %.1f ms, want about %v", want.q, got, want.ms)
		}
	}
}

func TestAStreamEndsWithItsContext(t *testing.T) {
	s := serveSim(t, sim.Config{Echo: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	r, err := Stream(ctx, StreamConfig{Target: target(t, "target", s.URL()), Duration: time.Hour})
	if err != nil || time.Since(start) > 5*time.Second || len(r.Failures) > 0 || r.Up.Sent == 0 {
		t.Errorf("%v after %v: %+v", err, time.Since(start), r)
	}
}

// Lost, twice and out of order are told apart by number, and by direction.
func TestTrackTellsWhatBecameOfTheChunks(t *testing.T) {
	f := func(seq, echo []uint32, sent uint64, up, down Flow) {
		t.Helper()
		tr, now := newTrack(time.Millisecond, 10), time.Now()
		for i := range seq {
			tr.arrived(sim.Stamp{Seq: seq[i], Echo: echo[i], Sent: now.UnixNano(), Arrived: now.UnixNano()}, now, now)
		}
		if gotUp, gotDown := tr.flows(sent); gotUp != up || gotDown != down {
			t.Errorf("%v: up %+v, down %+v, want %+v, %+v", seq, gotUp, gotDown, up, down)
		}
	}
	all := Flow{Sent: 4, Arrived: 4}
	f([]uint32{0, 1, 2, 3}, []uint32{0, 1, 2, 3}, 4, all, all)
	f([]uint32{0, 1, 3}, []uint32{0, 1, 2}, 4, Flow{Sent: 4, Arrived: 3, Lost: 1}, Flow{Sent: 3, Arrived: 3})
	f([]uint32{0, 1, 3}, []uint32{0, 1, 3}, 4, all, Flow{Sent: 4, Arrived: 3, Lost: 1})
	f([]uint32{0, 1, 1, 3}, []uint32{0, 1, 2, 3}, 4, Flow{Sent: 4, Arrived: 3, Lost: 1, Duplicated: 1}, all)
	f([]uint32{0, 1, 2, 2, 3}, []uint32{0, 1, 2, 2, 3}, 4, Flow{Sent: 4, Arrived: 4, Duplicated: 1}, Flow{Sent: 4, Arrived: 4, Duplicated: 1})
	f([]uint32{0, 2, 1, 3}, []uint32{0, 1, 2, 3}, 4, Flow{Sent: 4, Arrived: 4, Reordered: 1}, all)
	f([]uint32{0, 2, 1, 3}, []uint32{0, 2, 1, 3}, 4, Flow{Sent: 4, Arrived: 4, Reordered: 1}, Flow{Sent: 4, Arrived: 4, Reordered: 1})
	f([]uint32{0}, []uint32{math.MaxUint32}, 1, Flow{Sent: 1, Arrived: 1}, Flow{Sent: 21, Arrived: 1, Lost: 20}) // a broken stamp costs no memory
}

func TestAChunkAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	m := newMicrophone(0, &socket{conn: discard{}}, 20*time.Millisecond, 1)
	if n := testing.AllocsPerRun(100, func() { _ = m.speak(t.Context(), time.Now().Add(-time.Second)) }); n > 0 {
		t.Errorf("%v allocations for a chunk, want none", n)
	}
	msg := []byte(`{"type":"response.output_audio.delta","event_id":"e","delta":"` + strings.Repeat("A", 1280) + `"}`)
	if n := testing.AllocsPerRun(100, func() { stampOf(msg) }); n > 0 {
		t.Errorf("%v allocations for an echo, want none", n)
	}
}

// discard is a connection that swallows what is written.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
