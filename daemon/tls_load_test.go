package daemon

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
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
			r := startRig(t, wiretest.NewTLSUpstream(t, wiretest.Ready), 20, withTLS(files), func(c *Config) { c.goroutines = goroutines })
			r.awaitIdle(20)
			config := clientTLS(ca, func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(sessions) })
			var running sync.WaitGroup
			for i := range sessions {
				if i == sessions/2 {
					ca.ReplacePair(files, "renewed")
					r.look()
				}
				running.Go(func() {
					if err := r.echoes(config, uint64(i), messages); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				})
			}
			running.Wait()
			r.await("ends of the sessions", func() bool { return r.lines("session ended", `"code":1000`) == sessions })
		})
	}
}

// echoes runs one session: messages of all sizes are written without waiting for their echoes.
func (r *rig) echoes(config *tls.Config, seed uint64, messages int) error {
	conn, err := r.handshake(config)
	if err != nil {
		return err
	}
	c := wiretest.NewClient(r.t, conn)
	c.Timeout = time.Minute
	defer c.Close()
	if err := c.TrySend([]byte(wiretest.HS)); err != nil {
		return err
	}
	if head, err := c.TryReadHead(); err != nil || !bytes.HasPrefix([]byte(head), []byte("HTTP/1.1 101 ")) {
		return fmt.Errorf("answer %q: %w", head, err)
	}
	if f, err := c.TryReadFrame(); err != nil || string(f.Payload) != wiretest.SessionCreated {
		return fmt.Errorf("first frame %q: %w", f.Payload, err)
	}
	var wrote error
	sent, got := sha256.New(), sha256.New()
	var writing sync.WaitGroup
	writing.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		for range messages {
			payload := make([]byte, random.IntN(1<<random.IntN(18)+1))
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			sent.Write(payload)
			if wrote = c.TrySend(c.Frame(true, wiretest.Binary, payload)); wrote != nil {
				return
			}
		}
	})
	for range messages {
		f, err := c.TryReadFrame()
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
