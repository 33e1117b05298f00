package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type resizeDocument struct {
	PreviousSize uint32       `json:"previous_size"`
	Pool         poolDocument `json:"pool"`
}

type resized struct {
	pool   *rtdv1.Pool
	before uint32
}

func newPoolResize(a *app) *cobra.Command {
	var pool string
	cmd := &cobra.Command{
		Use:   "resize SIZE",
		Short: "Set how many idle sessions a pool keeps",
		Long: `Set how many idle sessions a pool keeps.

The size is in force when the command ends; the sessions follow as fast as the
upstream takes dials. It is exact, of several callers the last one acknowledged
holds, and it lasts until the daemon restarts. A smaller size closes idle sessions
only, never one a client holds.`,
		Example: `  rtctl pool resize 64
  rtctl pool resize 0 --pool openai/gpt-realtime`,
		Args: arguments("the size"),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := parseSize(args[0])
			if err != nil {
				return err
			}
			done, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (resized, error) {
				now, before, err := c.ResizePool(ctx, pool, size)
				return resized{now, before}, err
			})
			if err != nil {
				return err
			}
			p := done.pool
			return a.emit(resizeDocument{done.before, documentPool(p)}, fmt.Sprintf("%s: size %d, was %d; %d idle, %d dialing\n",
				p.GetName(), p.GetSize(), done.before, p.GetIdle(), p.GetDialing()))
		},
	}
	a.poolFlag(cmd, &pool)
	cmd.SetFlagErrorFunc(negativeSize)
	return cmd
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
