// Package unixsock holds what a daemon on a Unix socket must get right: where the
// socket lives, who may replace it, who is calling, and what systemd is told.
//
// Listen guarantees that the socket is never open wider than asked, not even for
// an instant, that a socket left by a crash is replaced, and that nothing which
// belongs to another process or another user is ever unlinked. The caller closes
// what it opened, and gives Listen a directory that others cannot write to:
// Listen refuses any other.
package unixsock
