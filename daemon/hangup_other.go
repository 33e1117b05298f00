//go:build !linux

package daemon

// hungUp does not know: only Linux tells of an end behind unread bytes. Such a client is noticed when it is answered.
func hungUp(int) bool { return false }
