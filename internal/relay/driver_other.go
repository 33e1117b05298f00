//go:build !linux

package relay

func newDriver(l *loop) (driver, error) { return newPortable(l), nil }
