package command

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// closeCodes are the ones rtd sends of its own accord: clients do not retry others.
var closeCodes = []uint32{1000, 1001, 1002, 1007, 1008, 1009, 1011, 1012, 1013}

// maxReason is what a Close frame holds beside its code (RFC 6455 section 5.5).
const maxReason = 123

func newSessionClose(a *app) *cobra.Command {
	var (
		code   uint32
		reason string
		wait   patience
	)
	cmd := &cobra.Command{
		Use:   "close SESSION",
		Short: "End one session with a Close frame to both ends",
		Long: `End one session with a Close frame to both ends, at a frame boundary.

Codes: 1000 normal, 1001 going away, 1002 protocol error, 1007 invalid payload,
1008 policy, 1009 too big, 1011 internal error, 1012 restart, 1013 try again later.
SDKs connect again after 1001, 1011, 1012 and 1013. Returns when the session is gone.`,
		Example: `  rtctl session close rts_st3emzonamfokguynqs5
  rtctl session close rts_st3emzonamfokguynqs5 --code 1008 --reason "quota used up"`,
		Args:              arguments("the session"),
		ValidArgsFunction: onlyFirst(a.completeSessions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(checkClose(code, reason), wait.check()); err != nil {
				return err
			}
			return closeSession(cmd.Context(), a, args[0], code, reason, &wait)
		},
	}
	cmd.Flags().Uint32Var(&code, "code", 1001, "close code")
	cmd.Flags().StringVar(&reason, "reason", "", "close reason, at most 123 bytes")
	wait.flags(cmd, "closing")
	return cmd
}

func checkClose(code uint32, reason string) error {
	switch {
	case !slices.Contains(closeCodes, code):
		return usagef("--code %d is not one of %v", code, closeCodes)
	case len(reason) > maxReason:
		return usagef("--reason has %d bytes, a Close frame holds %d", len(reason), maxReason)
	case !utf8.ValidString(reason):
		return usagef("--reason is not UTF-8")
	}
	return nil
}

func closeSession(ctx context.Context, a *app, id string, code uint32, reason string, wait *patience) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := bounded(ctx, func(ctx context.Context) (*rtdv1.Session, error) { return c.CloseSession(ctx, id, code, reason) })
	if err != nil {
		return err
	}
	if wait.noWait {
		return a.emit(documentSession(s), textf("%s: closing with %d\n", id, code))
	}
	err = wait.poll(ctx, a, func(ctx context.Context) (string, bool, error) {
		now, err := c.Session(ctx, id)
		if errors.Is(err, client.ErrNotFound) {
			s.State = rtdv1.SessionState_SESSION_STATE_ENDED
			return "", true, nil
		}
		if err != nil {
			return "", false, err
		}
		s = now
		return id + " is closing", now.GetState() == rtdv1.SessionState_SESSION_STATE_ENDED, nil
	})
	if err != nil {
		return err
	}
	return a.emit(documentSession(s), textf("%s: closed with %d\n", id, code))
}
