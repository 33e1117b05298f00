package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type readyDocument struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"` // why not; "" when it is
	Warm   uint32 `json:"warm"`
	Target uint32 `json:"warm_target"`
}

func newReady(a *app) *cobra.Command {
	var (
		minWarm uint32
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Tell by the exit status whether rtd takes clients",
		Long: `Tell by the exit status whether rtd takes clients: 0 when it does, 1 when not.

One line says how it stands or why not. With --min-warm that many sessions must be
warm too, over all pools. With --timeout it looks again until the answer is yes or
time is up, also while no daemon answers yet.`,
		Example: `  rtctl ready
  rtctl ready --min-warm 32 --timeout 30s && systemctl start the-next-thing`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout < 0 {
				return usagef("--timeout %v is negative", timeout)
			}
			doc, err := awaitReady(cmd.Context(), a, minWarm, timeout)
			if err != nil {
				return err
			}
			return a.emitReady(doc)
		},
	}
	cmd.Flags().Uint32Var(&minWarm, "min-warm", 0, "warm sessions it takes, over all pools")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for it (default: look once)")
	return cmd
}

// awaitReady looks once, and then again until the daemon is ready or time is up. Its error is that of the last look.
func awaitReady(ctx context.Context, a *app, minWarm uint32, timeout time.Duration) (readyDocument, error) {
	for deadline := time.Now().Add(timeout); ; {
		// Each look connects anew: a client that was refused backs off, for longer each time.
		info, err := call(ctx, a, func(ctx context.Context, c *client.Client) (*rtdv1.DaemonInfo, error) { return c.Info(ctx) })
		doc := readiness(info, minWarm)
		switch left := time.Until(deadline); {
		case ctx.Err() != nil:
			return doc, errors.New("interrupted")
		case err == nil && doc.Ready, left <= 0, err != nil && !comesYet(err):
			return doc, err
		default:
			select {
			case <-ctx.Done():
			case <-time.After(min(pollInterval, left)):
			}
		}
	}
}

// comesYet reports whether a daemon may answer later.
func comesYet(err error) bool {
	return errors.Is(err, client.ErrUnreachable) || errors.Is(err, client.ErrStopped)
}

func readiness(i *rtdv1.DaemonInfo, minWarm uint32) readyDocument {
	d := readyDocument{Ready: i.GetReady(), Reason: i.GetNotReadyReason(), Warm: i.GetWarm(), Target: i.GetWarmTarget()}
	if d.Ready && d.Warm < minWarm {
		d.Ready, d.Reason = false, fmt.Sprintf("%d of %s warm", d.Warm, plural(minWarm, "session"))
	}
	return d
}

// emitReady tells the answer; no is status 1 without an error, since rtctl did what it was asked to.
func (a *app) emitReady(d readyDocument) error {
	shown := textf("not ready: %s\n", d.Reason)
	if d.Ready {
		shown = textf("ready, %d of %d warm\n", d.Warm, d.Target)
	}
	if err := a.emit(d, shown); err != nil || d.Ready {
		return err
	}
	return &statusError{status: exitFailed}
}
