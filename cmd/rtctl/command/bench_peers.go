package command

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/bench"
)

type peersFlags struct {
	form benchForm
	rtd  string
	run  bench.PeersConfig
}

func newBenchPeers(a *app) *cobra.Command {
	f := peersFlags{form: "table"}
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Put the same loads through rtd, HAProxy and nginx, and compare them",
		Long: `Put the same loads through rtd, HAProxy and nginx, and compare them.

Each gets idle sessions, for the memory that one costs, and then sessions that send
and receive audio at the pace of a microphone, for the CPU that a frame costs and the
time it adds to what sessions need that go past it meanwhile. All run on loopback, in
front of one scripted upstream without TLS, take turns, and are started anew for each
turn. HAProxy and nginx must be installed (on Debian: haproxy, nginx-light); their
configuration is made for the run.

Exit status: 1 if a program is missing or fails, 3 if the generator was the bottleneck.`,
		Example: `  rtctl bench peers
  rtctl bench peers --peers rtd,haproxy --idle 5000 --sessions 100 --duration 10s --repeat 5 -o markdown`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.compare(cmd, a) },
	}
	flags, c := cmd.Flags(), &f.run
	flags.SortFlags = false
	flags.StringSliceVar(&c.Peers, "peers", bench.PeerNames, "what to compare")
	flags.IntVar(&c.Idle, "idle", 1000, "idle sessions to measure memory with")
	flags.IntVar(&c.Sessions, "sessions", 25, "sessions that speak through a peer, and as many past it")
	flags.DurationVar(&c.Period, "period", 20*time.Millisecond, "length of a chunk of audio and time between two")
	flags.DurationVar(&c.Duration, "duration", 5*time.Second, "how long they speak")
	flags.IntVar(&c.Repeat, "repeat", 3, "turns of each")
	flags.DurationVar(&c.MaxLate, "max-late", bench.DefaultMaxLate, "lateness of the generator at p99 from which on a run is invalid")
	flags.VarP(&f.form, "output", "o", "form of the output: table, json or markdown")
	flags.StringVar(&f.rtd, "rtd", "", "the rtd to measure (default beside rtctl, in PATH, or built from here)")
	return cmd
}

func (f *peersFlags) compare(cmd *cobra.Command, a *app) error {
	c := &f.run
	switch {
	case f.form == "csv":
		return usagef("-o csv is not for peers: it is table, json or markdown")
	case c.Idle < 1 || c.Sessions < 1 || c.Repeat < 1 || c.Period <= 0 || c.Duration <= 0 || c.MaxLate <= 0 || len(c.Peers) == 0:
		return usagef("--peers, --idle, --sessions, --period, --duration, --repeat and --max-late must not be empty or zero")
	}
	bar := a.newProgress()
	defer bar.clear()
	c.Progress = bar.show
	var (
		forget func()
		err    error
	)
	if c.Rtctl, c.Rtd, forget, err = programs(cmd.Context(), f.rtd); err != nil {
		return err
	}
	defer forget()
	report, err := bench.Peers(cmd.Context(), *c)
	switch {
	case errors.Is(err, bench.ErrConfig):
		return usagef("%s", err)
	case cmd.Context().Err() != nil:
		return errors.New("interrupted before all were measured")
	case err != nil:
		return err
	}
	report.Commit = readBuild().Commit
	bar.clear()
	if err := f.show(a, report); err != nil {
		return err
	}
	if len(report.Invalid) > 0 {
		return &statusError{exitInvalid, "the run is invalid: " + strings.Join(report.Invalid, "; ")}
	}
	return nil
}

func (f *peersFlags) show(a *app, r *bench.PeersReport) error {
	switch f.form {
	case "json":
		return (&app{stdout: a.stdout, format: formatJSON}).emit(r)
	case "markdown":
		return a.text(bench.Markdown(r.Table(), r.Notes()))
	}
	return a.text(benchTable(r.Table()) + "\n" + strings.Join(r.Notes(), "\n") + "\n")
}
