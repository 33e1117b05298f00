package daemon

import "testing"

// The length of a slice in chunks of each session: short, so that what else the machine does meets both kinds alike. The
// first are not measured: what the other kind did not need meanwhile is cold.
const (
	costPeriods = 8
	costWarm    = 2
)

// BenchmarkStatisticsCost compares the processor time, user and system, of one daemon with its statistics on and off, in
// slices that take turns: 300 sessions with a 20 ms chunk each way. ratio is the median over the turns of on against off,
// low and high are its 95% interval, q1 and q3 the quartiles of the turns. -benchtime 200x gives it enough turns.
func BenchmarkStatisticsCost(b *testing.B) {
	s := startLoaded(b)
	slice := func(word string) float64 {
		s.tell(word)
		s.speak(costWarm)
		before := s.tell("")
		chunks := s.speak(costPeriods)
		return (s.tell("") - before) / float64(chunks)
	}
	s.stagger(gather)
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
