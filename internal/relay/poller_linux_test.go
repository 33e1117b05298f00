package relay

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestABrokenLegThatIsNotReadCostsNothing: epoll goes on reporting a reset connection, and this one is not to be read
// until its slow client took what came before.
func TestABrokenLegThatIsNotReadCostsNothing(t *testing.T) {
	b := newBench(t, Config{})
	conn, up := b.upstream()
	s := b.park(Upstream{Conn: conn}, newRecorder())
	ours, cl := b.client()
	small(b, ours, cl.Conn)
	if err := s.Adopt(Client{Conn: ours, LossEvent: []byte(lossEvent)}, newRecorder()); err != nil {
		t.Fatal(err)
	}
	payload := strings.Repeat("0123456789abcdef", 10<<10)
	up.SendText(payload)
	time.Sleep(50 * time.Millisecond) // it is held up
	up.RST()
	before := cpuTime(t)
	time.Sleep(300 * time.Millisecond) // the time in which the processor is to rest
	if used := cpuTime(t) - before; used > 100*time.Millisecond {
		t.Errorf("used %v of processor time", used)
	}
	cl.ExpectText(payload)
	cl.ExpectText(lossEvent)
	cl.ExpectClose(1011)
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
