//go:build race

package bench

// raceEnabled: the race detector allocates for itself.
const raceEnabled = true
