package daemon

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// TestTLSUnderLoad: TLS on both legs, from a real TLS client to a TLS upstream. Every byte comes back, in order, while
// certificates change under the clients.
func TestTLSUnderLoad(t *testing.T) {
	const sessions, messages = 200, 12
	for _, goroutines := range []bool{false, true} {
		t.Run(fmt.Sprintf("goroutines=%v", goroutines), func(t *testing.T) {
			ca := wiretest.NewAuthority(t)
			files := ca.WritePair(t.TempDir(), "gateway")
			r := startRig(t, wiretest.NewTLSUpstream(t, patient), 20, withTLS(files), func(c *Config) {
				c.goroutines = goroutines
				c.HandshakeTimeout, c.ReadyTimeout, c.Routes[0].Pool.DialTimeout = time.Minute, time.Minute, time.Minute
			})
			r.awaitIdle(20)
			opening := make(chan struct{}, 16)
			config := clientTLS(ca, func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(sessions) })
			var running sync.WaitGroup
			for i := range sessions {
				if i == sessions/2 {
					ca.ReplacePair(files, "renewed")
					r.look()
				}
				running.Go(func() {
					if err := r.echoes(config, opening, byte(i), messages); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				})
			}
			running.Wait()
			r.await("ends of the sessions", func() bool { return r.lines("session ended", `"code":1000`) == sessions })
		})
	}
}

// patient is wiretest.Ready for clients that take their time.
func patient(c *wiretest.UpstreamConn) {
	c.Timeout = time.Minute
	wiretest.Ready(c)
}

// tryOpen is secure for any goroutine.
func (r *rig) tryOpen(config *tls.Config) (*wiretest.Client, error) {
	conn, err := r.handshake(config)
	if err != nil {
		return nil, err
	}
	c := wiretest.NewClient(r.t, conn)
	c.Timeout = time.Minute
	if err := c.TrySend([]byte(wiretest.HS)); err != nil {
		return nil, err
	}
	if head, err := c.TryReadHead(); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		return nil, fmt.Errorf("answer %q: %w", head, err)
	}
	if f, err := c.TryReadFrame(); err != nil || string(f.Payload) != wiretest.SessionCreated {
		return nil, fmt.Errorf("first frame %q: %w", f.Payload, err)
	}
	return c, nil
}

// echoes runs one session, the opening of which takes a place in opening: messages of all sizes are written without waiting
// for their echoes.
func (r *rig) echoes(config *tls.Config, opening chan struct{}, seed byte, messages int) error {
	opening <- struct{}{}
	c, err := r.tryOpen(config)
	<-opening
	if err != nil {
		return err
	}
	defer c.Close()
	var wrote error
	sent, got := sha256.New(), sha256.New()
	var writing sync.WaitGroup
	writing.Go(func() {
		source := rand.NewChaCha8([32]byte{seed})
		random := rand.New(source)
		for range messages {
			payload := make([]byte, random.IntN(1<<random.IntN(18)+1))
			source.Read(payload)
			sent.Write(payload)
			if wrote = c.TrySend(c.Frame(true, wiretest.Binary, payload)); wrote != nil {
				return
			}
		}
	})
	for n := 0; n < messages; {
		f, err := c.TryReadFrame()
		if err == nil && f.Op == wiretest.Ping { // rtd's own, of a session that takes long
			continue
		}
		n++
		if err != nil {
			c.Close()
			writing.Wait()
			return fmt.Errorf("read: %w (write: %v)", err, wrote)
		}
		got.Write(f.Payload)
	}
	writing.Wait()
	if wrote != nil || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		return fmt.Errorf("the echo is not what was sent (write: %v)", wrote)
	}
	if err := c.TrySend(c.Frame(true, wiretest.Close, []byte{3, 232})); err != nil {
		return err
	}
	f, err := c.TryReadFrame()
	if err != nil || f.Op != wiretest.Close {
		return fmt.Errorf("answer to the Close: %+v, %w", f, err)
	}
	return nil
}
