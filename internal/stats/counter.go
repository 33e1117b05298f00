package stats

// Counter is one thing that an Aggregate counts.
type Counter uint8

// The counters.
const (
	// Sessions counts those answered with a 101, Ended those of them that are over.
	Sessions Counter = iota
	Ended
	// Started counts responses that began, the next four how they ended.
	Started
	Completed
	Cancelled
	Failed
	Incomplete
	// Interrupted counts responses that were cut short, while they were made or while they were played.
	Interrupted
	// Lost counts turns that were due an answer when the session ended.
	Lost
	// Errors counts error events.
	Errors
	// The tokens that the upstream billed.
	TokensInput
	TokensOutput
	TokensTotal
	TokensInputText
	TokensInputAudio
	TokensInputImage
	TokensInputCached
	TokensOutputText
	TokensOutputAudio

	// NumCounters is how many there are.
	NumCounters = int(TokensOutputAudio) + 1
)

// Counts has a number for every counter.
type Counts [NumCounters]uint64

// Add returns the sum of both.
func (c Counts) Add(d Counts) Counts {
	for i := range c {
		c[i] += d[i]
	}
	return c
}

// Sub returns what c has more than an earlier d.
func (c Counts) Sub(d Counts) Counts {
	for i := range c {
		c[i] -= d[i]
	}
	return c
}
