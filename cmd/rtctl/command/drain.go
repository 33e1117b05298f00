package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type drainingDocument struct {
	State string         `json:"state"`
	Drain *drainDocument `json:"drain"`
}

func newDrain(a *app) *cobra.Command {
	var (
		timeout time.Duration
		noWait  bool
	)
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Refuse new clients and wait for the sessions to end",
		Long: `Refuse new clients, wait for the sessions to end, then end the rest with 1001.

New clients get 503 with Retry-After, and /readyz says no. The daemon stays, without
sessions, until ` + "`rtctl resume`" + ` or a stop. The drain goes on when this command is
interrupted. Status 0: every session ended by itself; 4: the timeout forced some.`,
		Example: `  rtctl drain
  rtctl drain --timeout 5m
  rtctl drain --timeout 0 -o json | jq .drain.forced`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("timeout") {
				timeout = client.DefaultGrace
			} else if timeout < 0 {
				return usagef("--timeout %v is negative", timeout)
			}
			return drain(cmd.Context(), a, timeout, noWait)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "time the sessions get; left out, the daemon's grace period")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it has begun")
	return cmd
}

func drain(ctx context.Context, a *app, timeout time.Duration, noWait bool) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	bar := a.newProgress()
	defer bar.clear()
	for step, err := range c.Drain(ctx, timeout) {
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted, the drain goes on: `rtctl status` shows it, `rtctl resume` ends it")
		case err != nil:
			return err
		case step.GetState() == rtdv1.DaemonState_DAEMON_STATE_DRAINED:
			bar.clear()
			return drainResult(a, step)
		case noWait:
			return a.emit(documentDrainStep(step), text("draining: "+drainLine(step.GetDrain())+"\n"))
		}
		bar.show("draining: " + drainLine(step.GetDrain()))
	}
	return errors.New("the daemon stopped reporting before the drain was done")
}

func documentDrainStep(step *rtdv1.DrainDaemonResponse) drainingDocument {
	return drainingDocument{word(step.GetState().String(), "DAEMON_STATE_"), documentDrain(step.GetDrain())}
}

func drainResult(a *app, step *rtdv1.DrainDaemonResponse) error {
	d := step.GetDrain()
	shown := textf("drained in %s: %s ended, %s forced; new clients are refused until `rtctl resume`\n",
		span(d.GetElapsed()), number(d.GetEnded()), number(d.GetForced()))
	if err := a.emit(documentDrainStep(step), shown); err != nil {
		return err
	}
	if d.GetForced() > 0 {
		return &statusError{status: exitForced} // the result has said it all
	}
	return nil
}
