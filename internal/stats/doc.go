// Package stats holds the numbers the gateway keeps about its sessions: how long each phase took, by pool result, and
// what its memory is made of. It does no I/O and starts no goroutine.
//
// Histograms are mergeable and answer quantiles by nearest rank with a relative error below 0.8%, never outside the true
// minimum and maximum. Aggregate is safe for concurrent use and cheap to record into; a Histogram is not, its owner
// serializes access.
package stats
