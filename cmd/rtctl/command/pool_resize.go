package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type resizeDocument struct {
	PreviousSize uint32       `json:"previous_size"`
	Pool         poolDocument `json:"pool"`
}

// resizePatience is enough for a few handshakes and their dial timeout.
const resizePatience = 10 * time.Second

func newPoolResize(a *app) *cobra.Command {
	var pool string
	wait := patience{timeout: resizePatience}
	cmd := &cobra.Command{
		Use:   "resize SIZE",
		Short: "Set how many idle sessions a pool keeps",
		Long: `Set how many idle sessions a pool keeps.

The size is in force at once. It is exact, and of several callers the last one
acknowledged holds. It lasts until the daemon restarts, or reloads a configuration
whose pool.size has changed; any other reload leaves it. A smaller size closes idle
sessions only, never one a client holds.

The command returns when the sessions are ready, or earlier when something holds
them up: a back-off, a pause, max_connections, another resize, the timeout. That is
no failure, for the size holds; the output tells how the pool stands.`,
		Example: `  rtctl pool resize 64
  rtctl pool resize 0 --pool openai/gpt-realtime
  rtctl pool resize 512 --no-wait`,
		Args: arguments("the size"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := parseSize(args[0])
			if err != nil {
				return err
			}
			if err := wait.check(); err != nil {
				return err
			}
			return resize(cmd.Context(), a, pool, size, &wait)
		},
	}
	a.poolFlag(cmd, &pool)
	cmd.Flags().BoolVar(&wait.noWait, "no-wait", false, "return once the size is in force")
	cmd.Flags().DurationVar(&wait.timeout, "timeout", wait.timeout, "wait no longer than this for the sessions")
	cmd.SetFlagErrorFunc(negativeSize)
	return cmd
}

func resize(ctx context.Context, a *app, name string, size uint32, wait *patience) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var before uint32
	pool, err := bounded(ctx, func(ctx context.Context) (now *rtdv1.Pool, err error) {
		now, before, err = c.ResizePool(ctx, name, size)
		return now, err
	})
	if err != nil {
		return err
	}
	if _, done := settled(pool, size); !done && !wait.noWait {
		pool, err = wait.watchPool(ctx, a, c, pool, func(p *rtdv1.Pool) (string, bool) { return settled(p, size) })
		if err != nil && !errors.Is(err, errTimeout) {
			return err
		}
	}
	return a.emit(resizeDocument{before, documentPool(pool)}, textf("%s: size %s, was %s; %s, %s idle\n",
		pool.GetName(), number(size), number(before), poolState(pool), number(pool.GetIdle())))
}

// settled says whether there is no more to wait for after a resize.
func settled(p *rtdv1.Pool, size uint32) (state string, done bool) {
	state = fmt.Sprintf("%s of %s idle, %s dialing", number(p.GetIdle()), number(size), number(p.GetDialing()))
	return state, p.GetIdle() >= size || p.GetSize() != size || p.GetPaused() || p.GetBackoff() != nil || p.GetBlocked() == "max_connections"
}

func parseSize(arg string) (uint32, error) {
	size, err := strconv.ParseInt(arg, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(arg, "-"):
		return 0, usagef("size %s is above the maximum of every pool", arg)
	case err == nil && size < 0, errors.Is(err, strconv.ErrRange):
		return 0, usagef("size %s is negative: it is how many idle sessions to keep, from 0", arg)
	case err != nil:
		return 0, usagef("size %q is no number: it is how many idle sessions to keep, from 0", arg)
	}
	return uint32(size), nil
}

// negativeSize says what is wrong with `resize -1`, which reads as a flag.
func negativeSize(_ *cobra.Command, err error) error {
	if _, arg, ok := strings.Cut(err.Error(), " in -"); ok {
		if _, sizeErr := parseSize("-" + arg); strings.Trim(arg, "0123456789") == "" {
			return sizeErr
		}
	}
	return usagef("%s", err)
}
