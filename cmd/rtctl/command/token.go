package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// tokenDocument has the names that providers give to such an answer.
type tokenDocument struct {
	Value     string    `json:"value"`
	ExpiresAt int64     `json:"expires_at"` // unix seconds
	Expires   time.Time `json:"expires"`
}

func newToken(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "token",
		Short:   "Make short-lived tokens for browsers",
		Example: `  rtctl token mint --model gpt-realtime`,
	}, newTokenMint(a))
}

func newTokenMint(a *app) *cobra.Command {
	var (
		req rtdv1.MintTokenRequest
		ttl time.Duration
	)
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Make a token that opens sessions for a while",
		Long: `Make a token that opens sessions for a while, in the name of a client key and for one model.
With --preset its sessions are configured so, and its client can choose no other.

The token is all of the output. Whoever has it can use it: hand it to one client, and
do not log it. A session that it opened goes on when it ends.`,
		Example: `  rtctl token mint --model gpt-realtime
  rtctl token mint --key web --model gpt-realtime --ttl 60s --origin https://app.example.com
  rtctl token mint --model gpt-realtime --preset support`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Model == "" {
				return usagef("token mint: --model is missing, as in: %s", firstExample(cmd))
			}
			if cmd.Flags().Changed("ttl") {
				req.Ttl = durationpb.New(ttl)
			}
			return a.mint(cmd, &req)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Key, "key", "", "name of the client key; needed when there are several")
	flags.StringVar(&req.Model, "model", "", "the one model it is for")
	flags.StringVar(&req.Preset, "preset", "", "the one preset of its sessions (default what its client chooses)")
	flags.StringVar(&req.Origin, "origin", "", "the one Origin it is for (default any that may connect)")
	flags.DurationVar(&ttl, "ttl", 0, "how long it opens sessions (default that of the daemon)")
	flags.Uint32Var(&req.Uses, "uses", 1, "how many sessions it opens")
	return cmd
}

func (a *app) mint(cmd *cobra.Command, req *rtdv1.MintTokenRequest) error {
	c, err := a.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	doc, err := bounded(cmd.Context(), func(ctx context.Context) (tokenDocument, error) {
		value, expires, err := c.MintToken(ctx, req)
		return tokenDocument{value, expires.Unix(), expires}, err
	})
	if err != nil {
		return err
	}
	return a.emit(doc, text(doc.Value+"\n"))
}
