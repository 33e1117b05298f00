//go:build race

package sim

// raceEnabled: under the race detector sync.Pool drops at random what it is given.
const raceEnabled = true
