package daemon

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Bounds of control.listen.
const (
	// maxControlHandshakes bounds the connections whose certificate is not known yet; each has controlHandshakeTimeout.
	maxControlHandshakes = 64
	// maxControlConnections bounds those whose certificate is: each costs some 50 KiB and a descriptor, as long as its client likes.
	maxControlConnections = 256
)

var (
	errManyHandshakes  = errors.New("too many TLS handshakes on the control listener; the one that took longest made room")
	errManyConnections = errors.New("too many connections to the control listener; close some")
)

// controlConns are the connections of control, from their handshake to their close. It is safe for concurrent use.
type controlConns struct {
	most int // over TCP; maxControlConnections but in tests

	mu      sync.Mutex
	open    map[net.Conn]bool // those of the socket too
	shaking []net.Conn        // those whose certificate is not known yet, the oldest first
	remote  int               // those whose certificate is
	over    bool              // no more are served
}

func newControlConns() *controlConns {
	return &controlConns{most: maxControlConnections, open: map[net.Conn]bool{}}
}

func (c *controlConns) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = true
	if c.over {
		cut(conn)
	}
}

func (c *controlConns) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// shake takes in a connection that has to show its certificate. When there are too many, the oldest has to go, so that strangers who
// are silent keep nobody out: who means it is done in a moment.
func (c *controlConns) shake(conn net.Conn) (evicted net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shaking) >= maxControlHandshakes {
		evicted, c.shaking = c.shaking[0], slices.Delete(c.shaking, 0, 1)
		cut(evicted)
	}
	c.shaking = append(c.shaking, conn)
	return evicted
}

func (c *controlConns) shaken(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shaking = slices.DeleteFunc(c.shaking, func(other net.Conn) bool { return other == conn })
}

// enter counts a connection whose certificate is good, until leave.
func (c *controlConns) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote >= c.most {
		return errManyConnections
	}
	c.remote++
	return nil
}

func (c *controlConns) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remote--
}

// cutAll ends all, from now on. A server that stops closes those that it serves, and waits for the others as long as their handshake
// may take.
func (c *controlConns) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for conn := range c.open {
		cut(conn)
	}
}

// cut makes whoever reads from conn give up. To close it is the server's part, which still sets options of it.
func cut(conn net.Conn) { _ = conn.SetDeadline(time.Unix(1, 0)) }

// controlConn is a connection that says when it is closed.
type controlConn struct {
	net.Conn
	closed func() // may be called again
}

// Close implements net.Conn.
func (c *controlConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
