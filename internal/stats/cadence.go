package stats

import "time"

const (
	// cadenceWindow is how many gaps the median is taken of: odd, short enough to follow a sender that changes pace, and
	// small enough for two cache lines: with many sessions, fetching them is most of the work.
	cadenceWindow = 9
	// cadenceLeast is how many gaps must be known before one is judged.
	cadenceLeast = 3
	// Pause is the gap from which on a sender fell silent: it says nothing about the chunks' pace.
	Pause = 2 * time.Second
)

// Cadence measures how evenly the chunks of one stream come and go. A gap is compared with the median of those before
// it, so that senders of 20, 40 or 100 ms chunks need no configuration. Work per chunk is bounded and allocates nothing.
// The zero value is ready to use.
type Cadence struct {
	in, out      time.Duration // when the last chunk came and went; 0 is none
	n, next      uint8
	sorted, ring [cadenceWindow]uint32 // ns, below Pause
}

// In takes note that a chunk came. jitter is how far the gap before it is from the median; ok is false where there is
// nothing to compare with.
func (c *Cadence) In(at time.Duration) (jitter time.Duration, ok bool) {
	gap, ok := gapSince(&c.in, at)
	if !ok {
		return 0, false
	}
	if c.n >= cadenceLeast {
		jitter = abs(gap - c.Median())
	} else {
		ok = false
	}
	c.insert(uint32(gap))
	return jitter, ok
}

// Out takes note that a chunk, known from In, was passed on.
func (c *Cadence) Out(at time.Duration) (jitter time.Duration, ok bool) {
	gap, ok := gapSince(&c.out, at)
	if !ok || c.n < cadenceLeast {
		return 0, false
	}
	return abs(gap - c.Median()), true
}

// Break says that the next chunk begins another stream: the gap before it means nothing.
func (c *Cadence) Break() { c.in, c.out = 0, 0 }

// Last is when the last chunk came, 0 before the first and after a break.
func (c *Cadence) Last() time.Duration { return c.in }

// Median is the median of the last gaps, 0 before the first.
func (c *Cadence) Median() time.Duration { return time.Duration(c.sorted[c.n/2]) }

func gapSince(last *time.Duration, at time.Duration) (gap time.Duration, ok bool) {
	before := *last
	*last = at
	gap = at - before
	return gap, before != 0 && gap >= 0 && gap < Pause
}

// insert puts a gap in the place of the oldest one.
func (c *Cadence) insert(gap uint32) {
	at := int(c.n)
	if c.n == cadenceWindow {
		oldest := c.ring[c.next]
		for at = 0; c.sorted[at] != oldest; {
			at++
		}
	} else {
		c.n++
	}
	c.ring[c.next] = gap
	c.next = (c.next + 1) % cadenceWindow
	for ; at > 0 && c.sorted[at-1] > gap; at-- {
		c.sorted[at] = c.sorted[at-1]
	}
	for ; at+1 < int(c.n) && c.sorted[at+1] < gap; at++ {
		c.sorted[at] = c.sorted[at+1]
	}
	c.sorted[at] = gap
}

func abs(d time.Duration) time.Duration { return max(d, -d) }
