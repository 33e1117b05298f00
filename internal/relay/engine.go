package relay

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rtd-project/rtd/internal/wire"
)

// Config has the bounds of an Engine.
type Config struct {
	// Pollers is the number of loops; default one up to four processors, then one per two.
	Pollers int
	// WriteStall is how long a peer may take no byte while some wait for it; default 30 s.
	WriteStall time.Duration
	// CloseTimeout bounds each wait at a session's end: for a frame to end, for the answer to a Close, for a FIN; default
	// 2 s.
	CloseTimeout time.Duration
	// MaxMessage bounds the payload of a message, bytes; default 32 MiB.
	MaxMessage int64
	// MaxFragments bounds the frames of a message; default 16384.
	MaxFragments uint16
	// MaxPrelude bounds what a parked upstream may send behind its given prelude, bytes; default 64 KiB.
	MaxPrelude int
	// Redact cleans the reason of a Close before it is passed on; nil changes nothing. It returns its argument or a new
	// slice, and must be safe for concurrent use.
	Redact func([]byte) []byte
	// Goroutines selects the portable engine where epoll is there too.
	Goroutines bool
}

func (c Config) withDefaults() Config {
	if c.Pollers <= 0 {
		c.Pollers = 1
		if n := runtime.GOMAXPROCS(0); n > 4 {
			c.Pollers = n / 2
		}
	}
	if c.WriteStall <= 0 {
		c.WriteStall = 30 * time.Second
	}
	if c.CloseTimeout <= 0 {
		c.CloseTimeout = 2 * time.Second
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = 32 << 20
	}
	if c.MaxFragments == 0 {
		c.MaxFragments = 16 << 10
	}
	if c.MaxPrelude <= 0 {
		c.MaxPrelude = 64 << 10
	}
	return c
}

func (c *Config) limits() wire.Limits {
	return wire.Limits{Message: c.MaxMessage, Fragments: c.MaxFragments}
}

// Engine carries sessions on a fixed set of loops. Its methods are safe for concurrent use.
type Engine struct {
	loops  []*loop
	next   atomic.Uint32
	wg     sync.WaitGroup
	closed sync.Once

	closeTimeout time.Duration
}

// New starts an engine. Close ends it.
func New(config Config) (*Engine, error) {
	config = config.withDefaults()
	e := &Engine{closeTimeout: config.CloseTimeout}
	start := time.Now()
	for range config.Pollers {
		l := newLoop(config, start)
		if err := l.open(config.Goroutines); err != nil {
			_ = e.Close()
			return nil, fmt.Errorf("relay: start a loop: %w", err)
		}
		e.loops = append(e.loops, l)
		e.wg.Go(l.d.run)
	}
	return e, nil
}

// Close is Shutdown with Config.CloseTimeout. The error is always nil.
func (e *Engine) Close() error {
	e.Shutdown(e.closeTimeout)
	return nil
}

// Shutdown ends every session with 1001 as Session.Close does, waits that long at most for them to end, closes what is
// left and waits for the engine's goroutines. A second call does nothing.
func (e *Engine) Shutdown(wait time.Duration) {
	e.closed.Do(func() {
		for _, l := range e.loops {
			l.post(l.shutDown)
		}
		late, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		for _, l := range e.loops {
			select {
			case <-l.empty:
			case <-late.Done():
			}
			l.post(l.abandonAll)
		}
		e.wg.Wait()
	})
}

// Blind shows handlers nothing but the end and takes no time of what passes, until it is called with false: for measuring
// what looking costs.
func (e *Engine) Blind(on bool) {
	for _, l := range e.loops {
		l.tellAll()
		l.call(func() { l.blind = on })
	}
}

// tellAll has the handlers told of what passed until now. It waits for that, and frames do not.
func (l *loop) tellAll() {
	for next, more := 0, true; more; more = next > 0 {
		if !l.call(func() { next = l.tellSome(next) }) {
			return
		}
	}
}

// Stats adds up the loops. It waits for each, and for handlers to have been told of all that passed.
func (e *Engine) Stats() Totals {
	var sum Totals
	for _, l := range e.loops {
		l.tellAll()
		l.call(func() { l.addTotals(&sum) })
	}
	return sum
}
