package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rtd-project/rtd/internal/wire"
)

// hangup is a context that also ends, with errClientGone, when a client hangs up. It watches only while somebody waits
// on Done, so a client that gets its session at once is never watched. It only peeks: bytes that a client sends ahead
// stay in the socket. One goroutine waits and stops; the timer of a context that was made from it may call Done as well.
type hangup struct {
	context.Context
	cancel    context.CancelCauseFunc
	conn      net.Conn      // the socket
	encrypted bool          // its last bytes are a farewell, behind which its end is to be seen
	mu        sync.Mutex    // guards peeked
	peeked    chan struct{} // closed when the watch has ended; nil while there is none
}

func watchHangup(ctx context.Context, conn net.Conn) *hangup {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hangup{Context: ctx, cancel: cancel, conn: conn}
	if secure, ok := conn.(*tls.Conn); ok {
		h.conn, h.encrypted = secure.NetConn().(*wire.Transport).Conn, true
	}
	return h
}

// Done implements context.Context and begins the watch.
func (h *hangup) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.peeked == nil {
		h.peeked = make(chan struct{})
		go h.peek(h.peeked)
	}
	return h.Context.Done()
}

func (h *hangup) peek(peeked chan<- struct{}) {
	defer close(peeked)
	sc, ok := h.conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return false
		}
		gone = n == 0 || err != nil
		if n > 0 && h.encrypted {
			gone = hungUp(int(fd))
			return gone
		}
		return true
	})
	if err == nil && gone {
		h.cancel(errClientGone)
	}
}

// stop ends the watch, if there is one; it must come before the socket changes hands. A later Done begins a new one.
func (h *hangup) stop() {
	h.mu.Lock()
	peeked := h.peeked
	h.mu.Unlock()
	if peeked == nil {
		return
	}
	h.conn.SetReadDeadline(time.Unix(1, 0))
	<-peeked
	h.conn.SetReadDeadline(time.Time{})
	h.mu.Lock()
	h.peeked = nil
	h.mu.Unlock()
}
