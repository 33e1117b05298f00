package relay

import (
	"testing"
	"time"
)

// TestInspectEachShowsEverySessionOnce: in its place, live or over, with its own counters.
func TestInspectEachShowsEverySessionOnce(t *testing.T) {
	const live = 2*lookAtOnce + 3
	onEach(t, Config{}, func(b *bench) {
		var pairs []*pair
		var sessions []*Session
		for n := range live {
			p := b.pair(Upstream{}, Client{})
			for range n % 3 {
				p.up.SendText("x")
				p.cl.ExpectText("x")
			}
			pairs, sessions = append(pairs, p), append(sessions, p.Session)
		}
		gone := pairs[5]
		gone.cl.SendClose(1000, "")
		gone.up.ExpectClose(1000)
		gone.up.SendClose(1000, "")
		gone.wantEnd(b, ByClient, 1000)
		shown := make([]int, live)
		InspectEach(sessions, func(n int, at time.Duration, c Counters) {
			shown[n]++
			want := uint64(n % 3)
			if n == 5 {
				want = 0
			}
			if at <= 0 || c.Messages[Down] != want {
				b.Errorf("session %d at %v: %d messages, want %d", n, at, c.Messages[Down], want)
			}
		})
		for n, times := range shown {
			if times != 1 {
				b.Errorf("session %d was shown %d times", n, times)
			}
		}
	})
}
