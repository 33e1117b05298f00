package daemon

import (
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/wire"
)

// Defaults of the limits of the process.
const (
	DefaultMaxHandshakes     = 4096
	DefaultDescriptorReserve = 64
)

const (
	// maxAnswers bounds the clients that are being told why they get no session; any more are cut off without a word.
	maxAnswers = 1024
	// shortageInterval is how often the log says that clients are turned away.
	shortageInterval = time.Minute
	// memoryAge is how old a reading of the memory in use may be.
	memoryAge = 100 * time.Millisecond
	// sweepInterval is how often sessions that are too old or too quiet are looked for; short limits are looked at more often.
	sweepInterval = time.Second
)

// limits bound the process as a whole. The bounds themselves are the configuration's; here is what they are held against.
type limits struct {
	handshakes atomic.Int64 // clients between accept and 101
	answers    atomic.Int64 // clients being told why not
	sessions   atomic.Int64 // admitted, up to their end
	memory     memoryGuard
	files      uint64 // the most descriptors the process may have
	said       said
}

func newLimits() *limits {
	l := &limits{files: math.MaxUint64}
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		l.files = uint64(r.Cur)
	}
	l.memory.group = findMemoryGroup("/")
	return l
}

// enter lets a client that was just accepted into its handshake, or says why not before a byte of it is read. leave must
// follow in both cases.
func (l *limits) enter(conn net.Conn, cfg *Config) error {
	n := l.handshakes.Add(1)
	switch {
	case !l.descriptorFree(conn, l.reserve(cfg)):
		return errNoDescriptors
	case l.memory.over(cfg.MemorySoftLimit):
		return errNoMemory
	case n > int64(cfg.MaxHandshakes):
		return errHandshakes
	}
	return nil
}

func (l *limits) leave() { l.handshakes.Add(-1) }

// mayAnswer reports whether there is room to tell a client why it is refused; answered must follow then.
func (l *limits) mayAnswer() bool {
	if l.answers.Add(1) <= maxAnswers {
		return true
	}
	l.answers.Add(-1)
	return false
}

func (l *limits) answered() { l.answers.Add(-1) }

// turnAwayTimeout bounds the TLS handshake with a client that is turned away.
const turnAwayTimeout = 2 * time.Second

// turnAway tells a client whose request was not read that there is no room for it. One that took a descriptor of the
// second half of the reserve is cut off: to explain takes time, in which the descriptor serves nobody.
func (d *Daemon) turnAway(ctx context.Context, set *settings, conn net.Conn, err error) {
	r := refuse(err)
	d.refusals.add(r.code)
	if d.limits.said.due(r.code, time.Now()) {
		d.log.Warn("clients are turned away (said once a minute)", "code", r.code, "error", r.message)
	}
	if err == errNoDescriptors && !d.limits.descriptorFree(conn, d.limits.reserve(&set.cfg)/2) {
		return
	}
	if conn, err := d.encrypt(ctx, set, conn, time.Now().Add(turnAwayTimeout)); err == nil {
		wire.WriteError(conn, r.status, r.code, r.message, r.header())
	}
}

// said keeps what happens to many from being logged for each.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time // by a few fixed names
}

// due reports whether what is worth saying; then it counts as said.
func (s *said) due(what string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[what]; ok && now.Sub(last) < shortageInterval {
		return false
	}
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	s.last[what] = now
	return true
}

// admit counts a session, until release.
func (l *limits) admit(cfg *Config) error {
	if n := l.sessions.Add(1); cfg.MaxSessions > 0 && n > int64(cfg.MaxSessions) {
		l.sessions.Add(-1)
		return errMaxSessions
	}
	return nil
}

func (l *limits) release() { l.sessions.Add(-1) }

// reserve is how many descriptors are kept from clients: a small limit must not be all reserve.
func (l *limits) reserve(cfg *Config) uint64 { return min(uint64(cfg.DescriptorReserve), l.files/8) }

// descriptorFree reports whether reserve descriptors are left besides conn's. The kernel hands out the lowest free number
// (POSIX open), so a new socket's number counts those in use for nothing.
func (l *limits) descriptorFree(conn net.Conn, reserve uint64) bool {
	fd := descriptor(conn)
	return fd < 0 || uint64(fd) < l.files-reserve
}

// descriptor is the number of a connection's socket, -1 when it has none.
func descriptor(conn net.Conn) int {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1
	}
	number := -1
	if raw.Control(func(fd uintptr) { number = int(fd) }) != nil {
		return -1
	}
	return number
}

// memoryGuard knows whether the process is near the point at which the kernel would kill it.
type memoryGuard struct {
	group *memoryGroup // nil: none that is limited
	read  atomic.Int64 // when used was read, unix ns
	used  atomic.Uint64
}

// over reports whether the memory in use has reached limit bytes; 0 is nine tenths of the cgroup's limit, if it has one.
func (g *memoryGuard) over(limit int64) bool {
	measure := residentBytes
	if limit == 0 {
		if g.group == nil {
			return false
		}
		limit = int64(g.group.limit / 10 * 9)
		measure = g.group.used
	}
	now := time.Now().UnixNano()
	if last := g.read.Load(); now-last >= int64(memoryAge) && g.read.CompareAndSwap(last, now) {
		g.used.Store(measure())
	}
	return g.used.Load() >= uint64(limit)
}

// sweep ends the sessions that are older than MaxSessionAge or quieter than IdleTimeout, until stop is closed. It is the
// one timer of all of them.
func (d *Daemon) sweep(stop <-chan struct{}) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		cfg := &d.current().cfg
		if cfg.MaxSessionAge > 0 || cfg.IdleTimeout > 0 {
			d.endOverdue(cfg, time.Now())
		}
		d.removeIdleOwn(time.Now())
		tick.Reset(sweepEvery(cfg))
	}
}

// sweepEvery is a tenth of the shortest limit, at most sweepInterval.
func sweepEvery(cfg *Config) time.Duration {
	every := sweepInterval
	for _, limit := range []time.Duration{cfg.MaxSessionAge, cfg.SessionWarning, cfg.IdleTimeout} {
		if limit > 0 {
			every = min(every, max(limit/10, time.Millisecond))
		}
	}
	return every
}

func (d *Daemon) endOverdue(cfg *Config, now time.Time) {
	for _, s := range d.sessions.all() {
		age := now.Sub(s.accepted)
		quiet := func() time.Duration { return min(age, now.Sub(d.epoch)-time.Duration(s.heard.Load())) }
		if cfg.IdleTimeout > 0 && quiet() >= cfg.IdleTimeout {
			s.upstream.relay.Inspect(func(time.Duration, relay.Counters) {}) // what passed is told of in batches
		}
		switch {
		case cfg.MaxSessionAge > 0 && age >= cfg.MaxSessionAge:
			s.overdue(ws.StatusGoingAway, "the session reached its maximum age; connect again")
		case cfg.IdleTimeout > 0 && quiet() >= cfg.IdleTimeout:
			s.overdue(ws.StatusNormalClosure, "the session was idle")
		case cfg.SessionWarning > 0 && age >= cfg.MaxSessionAge-cfg.SessionWarning && cfg.MaxSessionAge > 0:
			s.warn(cfg.MaxSessionAge - age)
		}
	}
}

// warn tells the client, once, how long its session has left.
func (s *session) warn(left time.Duration) {
	if s.warned.CompareAndSwap(false, true) {
		s.upstream.relay.Inject(s.upstream.from.dialect.ExpiryEvent(left))
	}
}

// overdue closes both legs, once. SDKs connect again after 1001 and not after 1000.
func (s *session) overdue(code ws.StatusCode, reason string) {
	if s.leaving.CompareAndSwap(false, true) {
		s.upstream.relay.Close(code, reason)
	}
}
