package daemon

import "testing"

// The length of a slice in chunks of each session: half a second, so that what else the machine does meets both kinds alike.
// The first are not measured: what the other kind did not need meanwhile is cold, which is a cost of the switch.
const (
	costPeriods = 25
	costWarm    = 5
	// costStagger is how many chunks the sessions are apart at most: what is done at every so many is not done for all at once.
	costStagger = 16
)

// BenchmarkStatisticsCost compares the processor time, user and system, of one daemon with its statistics on and off, in
// slices that take turns: 300 sessions with a 20 ms chunk each way. ratio is the median over the turns of on against off,
// low and high are its 95% interval, q1 and q3 the quartiles of the turns. -benchtime 60x gives it enough turns. "ws": the
// upstream is a plain one, as on the same host. "wss": it is reached over TLS, as every provider is. "shown": messages begin with
// something of their own, so that each is looked at.
func BenchmarkStatisticsCost(b *testing.B) {
	b.Run("ws", func(b *testing.B) { statisticsCost(b, load{chunk: appendUp, answer: deltaDown}) })
	b.Run("wss", func(b *testing.B) { statisticsCost(b, load{chunk: appendUp, answer: deltaDown, secure: true}) })
	b.Run("shown", func(b *testing.B) {
		statisticsCost(b, load{chunk: numbered(appendUp), answer: numbered(deltaDown)})
	})
}

// numbered puts a number before the type of a message.
func numbered(message []byte) []byte {
	return append([]byte(`{"seq":"1234567890",`), message[1:]...)
}

func statisticsCost(b *testing.B, l load) {
	s := startLoaded(b, l)
	slice := func(word string) float64 {
		s.tell(word)
		s.speak(costWarm)
		before := s.tell("")
		chunks := s.speak(costPeriods)
		return (s.tell("") - before) / float64(chunks)
	}
	s.stagger(costStagger)
	for range 4 {
		slice("see")
	}
	var ratios, on, off []float64
	for b.Loop() {
		x, y := slice("see"), slice("blind")
		y2, x2 := slice("blind"), slice("see") // the other way round, against drift
		ratios, on, off = append(ratios, (x+x2)/(y+y2)), append(on, x, x2), append(off, y, y2)
	}
	reportRatio(b, "ratio", ratios)
	b.ReportMetric(median(on), "on-µs/chunk")
	b.ReportMetric(median(off), "off-µs/chunk")
	b.ReportMetric(0, "ns/op")
}
