package command

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/sim"
)

// simDocument is the line rtctl sim prints once it listens.
type simDocument struct {
	URL string `json:"url"`
}

type simFlags struct {
	listen, caOut, keyEnv string
	fail                  []string
	config                sim.Config
}

func newSim(a *app) *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a scripted upstream to try and test rtd without a provider",
		Long: `Run a scripted upstream to try and test rtd without a provider.

It speaks the OpenAI Realtime dialect with no model behind it, prints its URL and
runs until it is interrupted. GET /sim/stats answers with what it has seen. A --fail
rule is an action (status=N, close=CODE:REASON, reset, fin or hang) and, behind
commas, what narrows it: first=N, rate=P, after=DURATION, on=EVENT_TYPE,
retry-after=VALUE.`,
		Example: `  rtctl sim --dial-delay 120ms --session-delay 8ms --response-delay 300ms
  rtctl sim --tls --ca-out ca.pem
  rtctl sim --fail status=429,retry-after=7,first=1 --fail reset,after=5s,rate=0.1`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringVar(&f.listen, "listen", "127.0.0.1:4010", "address to listen on; port 0 takes a free one")
	flags.BoolVar(&c.TLS, "tls", false, "serve wss with a certificate made at start")
	flags.StringVar(&f.caOut, "ca-out", "", "file to write the certificate to that clients must trust")
	flags.DurationVar(&c.DialDelay, "dial-delay", 0, "wait before an upgrade request is answered")
	flags.DurationVar(&c.SessionDelay, "session-delay", 0, "wait from the 101 to session.created")
	flags.DurationVar(&c.ResponseDelay, "response-delay", 0, "wait from response.created to the first delta")
	flags.IntVar(&c.AudioMS, "audio-ms", 1000, "length of a spoken answer in milliseconds")
	flags.IntVar(&c.ChunkMS, "chunk-ms", 100, "audio in one delta in milliseconds")
	flags.Float64Var(&c.RealtimeFactor, "realtime-factor", 0, "speed at which audio is sent; 1 as fast as it plays, 0 at once")
	flags.DurationVar(&c.ExpiresIn, "expires-in", 0, "life of a session, announced as expires_at; 0 for ever")
	flags.IntVar(&c.MaxSessions, "max-sessions", 0, "sessions at a time, more are refused with 429; 0 any number")
	flags.StringArrayVar(&f.fail, "fail", nil, "failure to act out; repeatable, the first that applies acts")
	flags.BoolVar(&c.BetaNames, "beta-names", false, "use the retired beta API's event names")
	flags.BoolVar(&c.Echo, "echo", false, "send stamped chunks of audio back, for measurements")
	flags.StringVar(&f.keyEnv, "require-key-env", "", "environment variable with the only credential that is let in")
	return cmd
}

// run serves until the command's context ends.
func (f *simFlags) run(cmd *cobra.Command, a *app) error {
	server, err := f.server()
	if err != nil {
		return err
	}
	if f.caOut != "" {
		if err := os.WriteFile(f.caOut, server.CAPEM(), 0o644); err != nil { //nolint:gosec // G306: a public certificate, for other users to read
			return fmt.Errorf("--ca-out: %w", err)
		}
	}
	listener, err := server.Listen(f.listen)
	if err != nil {
		return err
	}
	doc := simDocument{server.URL()}
	show := a.emit
	if a.format != formatTable {
		show = func(doc any, _ ...fmt.Stringer) error { return a.emitLine(doc) }
	}
	if err := show(doc, text(doc.URL+"\n")); err != nil {
		_ = listener.Close()
		return err
	}
	return server.Serve(cmd.Context(), listener)
}

// server makes the server that the flags describe.
func (f *simFlags) server() (*sim.Server, error) {
	c := f.config
	switch {
	case f.caOut != "" && !c.TLS:
		return nil, usagef("--ca-out goes with --tls")
	case c.AudioMS <= 0:
		return nil, usagef("--audio-ms is %d: it must be positive", c.AudioMS)
	case c.ChunkMS <= 0:
		return nil, usagef("--chunk-ms is %d: it must be positive", c.ChunkMS)
	case c.ExpiresIn > 0 && c.ExpiresIn < time.Second:
		return nil, usagef("--expires-in is %s: expires_at counts whole seconds", c.ExpiresIn)
	}
	if f.keyEnv != "" {
		if c.RequireKey = os.Getenv(f.keyEnv); c.RequireKey == "" {
			return nil, usagef("--require-key-env: the variable %s is not set or empty", f.keyEnv)
		}
	}
	for _, text := range f.fail {
		rule, err := sim.ParseRule(text)
		if err != nil {
			return nil, usagef("--fail: %s", err)
		}
		c.Fail = append(c.Fail, rule)
	}
	server, err := sim.New(c)
	if errors.Is(err, sim.ErrConfig) {
		return nil, usagef("%s", err)
	}
	return server, err
}
