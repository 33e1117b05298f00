package daemon

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/wiretest"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Whoever watches at the same pace is sent the same, which is made once.
func TestThoseWhoWatchTogetherAreSentTheSame(t *testing.T) {
	const interval, looks = 100 * time.Millisecond, 10
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	c := r.session()
	ctl := r.control()
	watch := func() (seen []*rtdv1.Stats) {
		for s, err := range ctl.WatchStats(t.Context(), interval) {
			if err != nil {
				t.Error(err)
				return seen
			}
			if seen = append(seen, s); len(seen) == looks {
				return seen
			}
			c.SendHex(wiretest.Hello)
		}
		return seen
	}
	var both [2][]*rtdv1.Stats
	var wg sync.WaitGroup
	for n := range both {
		wg.Go(func() { both[n] = watch() })
	}
	wg.Wait()
	at := map[time.Time]*rtdv1.Stats{}
	for _, s := range both[0] {
		at[s.GetTime().AsTime()] = s
	}
	shared := 0
	for n, s := range both[1] {
		if other := at[s.GetTime().AsTime()]; other != nil {
			shared++
			if n > 1 && other.GetLastInterval() != nil && !proto.Equal(s.GetMemory(), other.GetMemory()) {
				t.Errorf("at %v two looks differ: %v and %v", s.GetTime().AsTime(), s.GetMemory(), other.GetMemory())
			}
		}
		if n > 0 {
			want := s.GetTime().AsTime().Sub(both[1][n-1].GetTime().AsTime())
			if got := s.GetLastInterval().GetLength().AsDuration(); (got - want).Abs() > time.Millisecond { // of two clocks
				t.Errorf("look %d: an interval of %v, %v after the look before", n, got, want)
			}
		}
	}
	if shared < looks/2 {
		t.Errorf("%d of %d looks were shared", shared, looks)
	}
}

func TestTicksAreAtWholeMultiples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().Truncate(time.Hour)
		for _, c := range []struct{ interval, now, tick, next time.Duration }{
			{time.Second, 0, 0, time.Second},
			{time.Second, 400 * ms, 0, time.Second},
			{time.Second, 600 * ms, time.Second, 2 * time.Second}, // too close to the next
			{time.Second, 1003 * ms, time.Second, 2 * time.Second},
			{time.Second, 1999 * ms, 2 * time.Second, 3 * time.Second}, // the timer was early
			{100 * ms, 207 * ms, 200 * ms, 300 * ms},
			{10 * time.Second, 12 * time.Second, 10 * time.Second, 20 * time.Second},
			{time.Minute, 12 * time.Second, 12 * time.Second, 72 * time.Second}, // a pace of its own
		} {
			now := start.Add(c.now)
			if got := tickAt(now, c.interval).Sub(start); got != c.tick {
				t.Errorf("each %v: %v is of the tick at %v, want %v", c.interval, c.now, got, c.tick)
			}
			if got := c.now + untilTick(now, c.interval); got != c.next {
				t.Errorf("each %v: behind %v comes the tick at %v, want %v", c.interval, c.now, got, c.next)
			}
		}
	})
}

func TestAMomentIsTakenOnceForATick(t *testing.T) {
	var h history
	taken := 0
	take := func() *moment {
		taken++
		return &moment{at: time.Now(), snapshot: &stats.Snapshot{}}
	}
	begun := time.Now()
	first := h.at(begun, take)
	if again := h.at(begun, take); again != first || taken != 1 {
		t.Errorf("%d moments for one tick", taken)
	}
	if later := h.at(first.at.Add(1), take); later == first || taken != 2 {
		t.Errorf("a moment before its tick, %d taken", taken)
	}
}
