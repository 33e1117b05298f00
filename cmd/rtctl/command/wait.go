package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// pollInterval is how often a waiting verb looks again.
const pollInterval = 100 * time.Millisecond

// patience is how long a verb waits for what it began.
type patience struct {
	noWait  bool
	timeout time.Duration
}

func (p *patience) flags(cmd *cobra.Command, goal string) {
	cmd.Flags().BoolVar(&p.noWait, "no-wait", false, "return once it has begun")
	cmd.Flags().DurationVar(&p.timeout, "timeout", time.Minute, "fail if "+goal+" takes longer")
}

func (p *patience) check() error {
	if p.timeout <= 0 {
		return usagef("--timeout %v is no time to wait; --no-wait does not wait", p.timeout)
	}
	return nil
}

// errTimeout: what was begun is not finished, and goes on.
var errTimeout = errors.New("timed out")

// poll looks again and again until look says that it is done. What look returns is
// shown on a terminal meanwhile, and in the error when time is up.
func (p *patience) poll(ctx context.Context, a *app, look func(context.Context) (state string, done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	bar := a.newProgress()
	defer bar.clear()
	for last := ""; ; {
		state, done, err := look(ctx)
		timedOut := errors.Is(err, context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errTimeout) // the daemon's clock may be ahead
		switch {
		case timedOut && last == "" && err != nil:
			return err
		case timedOut:
			return fmt.Errorf("%w after %v, it goes on: %s", errTimeout, p.timeout, last)
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted, it goes on: %s", last)
		case err != nil || done:
			return err
		}
		last = state
		bar.show(state)
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// progress is one line on a terminal that is gone afterwards. It is on stderr, where
// it cannot mix with results, and nothing at all elsewhere.
type progress struct {
	w     io.Writer // nil: no terminal
	size  func() (width, height int)
	shown bool
	share func(text string) // of one daemon among several: puts the text on the line of all
}

func (a *app) newProgress() *progress {
	if a.part != nil {
		return &progress{share: a.part.progress}
	}
	size := terminalSize(a.stderr)
	if size == nil {
		return &progress{}
	}
	return &progress{w: a.stderr, size: size}
}

func (p *progress) show(text string) {
	if p.share != nil {
		p.share(text)
	}
	if p.w == nil {
		return
	}
	if lines := fit(printable(text), p.size); len(lines) > 0 {
		_, _ = fmt.Fprintf(p.w, "\r%s\x1b[K", lines[0])
		p.shown = true
	}
}

func (p *progress) clear() {
	if p.share != nil {
		p.share("")
	}
	if p.shown {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// watchPool polls one pool until done, and returns how it stands then.
func (p *patience) watchPool(ctx context.Context, a *app, c *client.Client, pool *rtdv1.Pool, look func(*rtdv1.Pool) (string, bool)) (*rtdv1.Pool, error) {
	err := p.poll(ctx, a, func(ctx context.Context) (string, bool, error) {
		now, err := c.Pool(ctx, pool.GetKey())
		if err != nil {
			return "", false, err
		}
		pool = now
		state, done := look(now)
		return now.GetName() + ": " + state, done, nil
	})
	return pool, err
}
