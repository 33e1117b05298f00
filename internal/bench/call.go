package bench

import (
	"context"
	"errors"
	"time"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
)

// closeWait bounds the closing handshake, in which the rest of an answer may still be on its way.
const closeWait = 5 * time.Second

// poolHeader is how rtd says where a session came from: hit, miss or bypass.
const poolHeader = "Rtd-Pool"

var (
	askItem     = []byte(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hello."}]}}`)
	askResponse = []byte(`{"type":"response.create"}`)
)

// openAI reads the events: its tables know the names of both generations of the API.
var openAI, _ = dialect.Lookup("openai")

// call makes one whole call that was due at due. It returns when the connection is closed.
func (t *Target) call(ctx context.Context, due time.Time, timeout time.Duration) (s sample) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	start := time.Now()
	c, err := t.dial(ctx)
	if err != nil {
		s.fail(ctx, "dial", err)
		return s
	}
	defer c.within(ctx)()
	opened := time.Now()
	s.pool = c.header.Get(poolHeader)
	s.took[phaseDial] = opened.Sub(start)
	s.took[phaseDNS], s.took[phaseTCP] = c.timing.DNS, c.timing.TCP
	s.took[phaseTLS], s.took[phaseUpgrade] = c.timing.TLS, c.timing.Upgrade

	if err := c.await(dialect.EventSessionCreated); err != nil {
		s.fail(ctx, "session", err)
		c.abort()
		return s
	}
	created := time.Now()
	s.took[phaseSession], s.took[phaseReady] = created.Sub(opened), created.Sub(start)

	answered, err := s.converse(c)
	if err != nil {
		s.fail(ctx, "first audio", err)
		c.abort()
		return s
	}
	s.took[phaseTotal] = answered.Sub(due)
	s.hangUp(c)
	return s
}

// converse asks for a spoken answer and returns when its first audio was read.
func (s *sample) converse(c *socket) (answered time.Time, err error) {
	if err := c.writeText(askItem); err != nil {
		return answered, err
	}
	asked := time.Now()
	if err := c.writeText(askResponse); err != nil {
		return answered, err
	}
	if err := c.await(dialect.EventAudioDelta); err != nil {
		return answered, err
	}
	answered = time.Now()
	s.took[phaseFirstAudio] = answered.Sub(asked)
	return answered, nil
}

// hangUp does the closing handshake. What goes wrong in it is counted, and no failure of the call.
func (s *sample) hangUp(c *socket) {
	defer c.close()
	start := time.Now()
	c.conn.SetDeadline(start.Add(closeWait))
	if c.writeClose(ws.StatusNormalClosure) != nil {
		return
	}
	for {
		_, err := c.read()
		var end *closedError
		if errors.As(err, &end) && end.code != ws.StatusAbnormalClosure {
			s.took[phaseClose], s.clean = time.Since(start), true
		}
		if err != nil {
			return
		}
	}
}

// await reads until an event comes. An error event, and the end of a response without any audio, end the wait as well.
func (s *socket) await(want dialect.Event) error {
	for {
		msg, err := s.read()
		if err != nil {
			return err
		}
		head, tail := msg[:min(len(msg), 192)], msg[max(0, len(msg)-160):]
		switch ev := openAI.ServerEvent(head, tail); ev {
		case want:
			return nil
		case dialect.EventError, dialect.EventSessionEnd, dialect.EventResponseDone:
			d := openAI.Detail(ev, msg, nil)
			return &refusedError{ev, d.ErrorCode, d.Status}
		}
	}
}
