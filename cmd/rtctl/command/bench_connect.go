package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/internal/bench"
)

type connectFlags struct {
	url, host, direct, gateway, gatewayOff string
	insecure, self                         bool
	model, key, ca                         string
	headers, assertions                    []string
	subprotocolKey                         bool
	timeout                                seconds
	minSuccess                             float64
	form                                   benchForm
	report, rtd                            string
	run                                    bench.Config
	rig                                    bench.RigConfig
}

func newBenchConnect(a *app) *cobra.Command {
	f := connectFlags{form: "table", timeout: seconds(bench.DefaultTimeout)}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Make calls to one endpoint or several in turn, and compare them",
		Long: `Make calls to one endpoint or several in turn, and compare them.

A call dials, waits for session.created, asks for a spoken answer, waits for its
first audio and closes. --self brings everything along: a scripted upstream behind
TLS and two rtd in front of it, one with a warm pool and one without. Otherwise
name one endpoint with --url or --host, or legs to compare with --direct, --gateway
and --gateway-off; calls take turns between them. With --rate calls begin on time
whether earlier ones are over or not, and their total counts from that time.

An --assert is a figure, one of < <= > >=, and a number, a figure, or a number times
a figure. A figure is [LEG.]PHASE.STAT or [LEG.]COUNT: the phases are dial, dns, tcp,
tls, upgrade, session, ready, first_audio, total, close, ready_hit, ready_miss and
ready_bypass, in milliseconds; the stats count, min, p50, p90, p95, p99, p999, max
and mean; the counts success, hits and under_1ms, in percent, calls, failures and
unclean_closes. Without a leg it is about the gateway, or the only leg.

Exit status: 1 if too few calls succeeded, an assertion failed or the run was
interrupted, which still prints what was measured; 3 if the generator was the
bottleneck, and the figures mean nothing.`,
		Example: `  rtctl bench connect --self
  rtctl bench connect --self -n 5000 -c 200 --assert "ready_hit.p50<=0.25*gateway-off.ready.p50"
  rtctl bench connect --direct wss://api.openai.com/v1/realtime --gateway ws://127.0.0.1:4001 -n 20 -c 2
  rtctl bench connect --host 127.0.0.1:4001 --insecure -m gpt-realtime --rate 50 -n 1000 -o markdown`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.connect(cmd, a) },
	}
	f.declare(cmd)
	return cmd
}

func (f *connectFlags) declare(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.self, "self", false, "bring a scripted upstream and two rtd along, and compare them")
	flags.StringVar(&f.url, "url", "", "the one endpoint to call; a missing path is /v1/realtime")
	flags.StringVar(&f.host, "host", "", "the same as host:port")
	flags.BoolVar(&f.insecure, "insecure", false, "with --host: ws, not wss")
	flags.StringVar(&f.direct, "direct", "", "URL of the provider, to compare with")
	flags.StringVar(&f.gateway, "gateway", "", "URL of a gateway")
	flags.StringVar(&f.gatewayOff, "gateway-off", "", "URL of a gateway with its pool off")
	flags.StringVarP(&f.model, "model", "m", "gpt-realtime", "model to ask for")
	flags.StringVar(&f.key, "key", "", "API key (default $OPENAI_API_KEY)")
	flags.BoolVar(&f.subprotocolKey, "subprotocol-key", false, "send the key as a subprotocol, as browsers do")
	flags.StringArrayVar(&f.headers, "header", nil, "request header, 'Name: value'; repeatable")
	flags.StringVar(&f.ca, "ca", "", "file with the certificates that verify wss endpoints")

	flags.IntVarP(&f.run.Calls, "calls", "n", 100, "calls to each endpoint")
	flags.IntVarP(&f.run.Concurrency, "concurrency", "c", 10, "calls in flight, over all endpoints; with --rate all that are due")
	flags.Float64Var(&f.run.Rate, "rate", 0, "calls per second over all endpoints, begun on time")
	flags.VarP(&f.timeout, "timeout", "t", "time a call may take, in seconds or as 1m30s")
	flags.IntVar(&f.run.Warmup, "warmup", 0, "calls to each endpoint first that do not count (--self: as many as are in flight)")
	flags.IntVar(&f.run.Repeat, "repeat", 1, "do it all so often, and show the spread")
	flags.DurationVar(&f.run.MaxLate, "max-late", bench.DefaultMaxLate, "lateness of the generator at p99 from which on a run is invalid")

	flags.Float64Var(&f.minSuccess, "min-success", 99, "percentage of calls that must succeed at each endpoint")
	flags.StringArrayVar(&f.assertions, "assert", nil, "what must hold, such as 'session.p50<1'; repeatable")
	flags.VarP(&f.form, "output", "o", "form of the output: table, json, markdown or csv")
	flags.StringVar(&f.report, "report", "", "file to write a page for a browser to")

	flags.DurationVar(&f.rig.DialDelay, "dial-delay", bench.DefaultDialDelay, "with --self: time of the upstream to its 101")
	flags.DurationVar(&f.rig.SessionDelay, "session-delay", bench.DefaultSessionDelay, "with --self: from there to session.created")
	flags.DurationVar(&f.rig.ResponseDelay, "response-delay", bench.DefaultResponseDelay, "with --self: from a request to its first audio")
	flags.IntVar(&f.rig.PoolSize, "pool-size", 0, "with --self: sessions kept ready (default as many as calls in flight)")
	flags.IntVar(&f.rig.MaxDialing, "max-dialing", 0, "with --self: sessions warmed at a time (default as many as the pool)")
	flags.StringVar(&f.rtd, "rtd", "", "with --self: the rtd to measure (default beside rtctl, in PATH, or built from here)")
}

// connect measures and prints, and says by its error how it went.
func (f *connectFlags) connect(cmd *cobra.Command, a *app) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	legs, err := f.legs()
	if err != nil {
		return err
	}
	var rig *bench.RigSetup
	if f.self {
		running, err := f.startRig(cmd, a)
		if err != nil {
			return err
		}
		defer running.Close()
		legs, rig = running.Legs, f.rig.Setup()
	}
	f.run.Legs, f.run.Timeout = legs, time.Duration(f.timeout)
	assertions, err := f.parseAssertions()
	if err != nil {
		return err
	}
	report, err := f.measure(ctx, a)
	if err != nil {
		return err
	}
	report.Config.Rig, report.Commit = rig, readBuild().Commit
	report.Judge(f.minSuccess, assertions)
	if err := f.show(a, report); err != nil {
		return err
	}
	return verdict(report)
}

// check refuses flags that do not go together.
func (f *connectFlags) check(cmd *cobra.Command) error {
	given := func(names ...string) (set []string) {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				set = append(set, "--"+name)
			}
		}
		return set
	}
	ways := given("self", "url", "host")
	if legs := given("direct", "gateway", "gateway-off"); len(legs) > 0 {
		ways = append(ways, legs[0])
	}
	rig := given("dial-delay", "session-delay", "response-delay", "pool-size", "max-dialing", "rtd")
	remote := given("model", "key", "subprotocol-key", "header", "ca")
	switch {
	case len(ways) == 0:
		return usagef("say what to call: --self, --url, --host, or legs with --direct, --gateway and --gateway-off")
	case len(ways) > 1:
		return usagef("%s and %s do not go together", ways[0], ways[1])
	case f.insecure && f.host == "":
		return usagef("--insecure goes with --host; a URL says ws:// or wss:// itself")
	case !f.self && len(rig) > 0:
		return usagef("%s goes with --self", rig[0])
	case f.self && len(remote) > 0:
		return usagef("%s does not go with --self", remote[0])
	case f.run.Calls < 1 || f.run.Concurrency < 1 || f.run.Repeat < 1:
		return usagef("-n, -c and --repeat must be at least 1")
	case f.minSuccess < 0 || f.minSuccess > 100:
		return usagef("--min-success is a percentage")
	case f.timeout <= 0 || f.run.MaxLate <= 0:
		return usagef("-t and --max-late must be positive")
	case f.rig.PoolSize < 0 || f.rig.MaxDialing < 0:
		return usagef("--pool-size and --max-dialing must not be negative")
	}
	if f.run.Rate > 0 && !cmd.Flags().Changed("concurrency") {
		f.run.Concurrency = 0 // all that are due
	}
	return nil
}

// startRig fills in what depends on the load and starts the processes.
func (f *connectFlags) startRig(cmd *cobra.Command, a *app) (*bench.Rig, error) {
	inFlight := f.run.Concurrency
	if inFlight == 0 {
		inFlight = min(f.run.Calls, 100)
	}
	if !cmd.Flags().Changed("pool-size") {
		f.rig.PoolSize = inFlight
	}
	if !cmd.Flags().Changed("max-dialing") {
		f.rig.MaxDialing = max(f.rig.PoolSize, 16)
	}
	if !cmd.Flags().Changed("warmup") {
		f.run.Warmup = min(inFlight, f.run.Calls)
	}
	bar := a.newProgress()
	defer bar.clear()
	bar.show("starting a scripted upstream and two rtd")
	var (
		forget func()
		err    error
	)
	if f.rig.Rtctl, f.rig.Rtd, forget, err = programs(cmd.Context(), f.rtd); err != nil {
		return nil, err
	}
	defer forget()
	return bench.StartRig(cmd.Context(), f.rig)
}

func (f *connectFlags) parseAssertions() ([]bench.Assertion, error) {
	var (
		names []string
		all   []bench.Assertion
	)
	for _, leg := range f.run.Legs {
		names = append(names, leg.Name)
	}
	for _, text := range f.assertions {
		assertion, err := bench.ParseAssertion(text)
		if err == nil {
			err = assertion.Check(names)
		}
		if err != nil {
			return nil, usagef("--assert: %s", err)
		}
		all = append(all, assertion)
	}
	return all, nil
}

func (f *connectFlags) measure(ctx context.Context, a *app) (*bench.Report, error) {
	bar := a.newProgress()
	defer bar.clear()
	f.run.Progress = func(done, total int) {
		bar.show(fmt.Sprintf("%s %d of %d calls", gauge(done, total), done, total))
	}
	report, err := bench.Connect(ctx, f.run)
	if errors.Is(err, bench.ErrConfig) {
		return nil, usagef("%s", err)
	}
	return report, err
}

func gauge(done, total int) string {
	const width = 30
	full := width * done / max(total, 1)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// show prints the report in the chosen form and writes the page.
func (f *connectFlags) show(a *app, r *bench.Report) error {
	if f.report != "" {
		var page bytes.Buffer
		if err := r.WriteHTML(&page); err != nil {
			return err
		}
		if err := os.WriteFile(f.report, page.Bytes(), 0o644); err != nil { //nolint:gosec // G306: a report, for other users to read
			return fmt.Errorf("--report: %w", err)
		}
	}
	switch f.form {
	case "json":
		return (&app{stdout: a.stdout, format: formatJSON}).emit(r)
	case "markdown":
		return a.text(bench.Markdown(r.Table(), r.Notes()))
	case "csv":
		return r.WriteCSV(a.stdout)
	}
	return a.text(benchTable(r.Table()) + "\n" + strings.Join(r.Notes(), "\n") + "\n")
}

// text prints a text whatever --output says.
func (a *app) text(shown string) error {
	return (&app{stdout: a.stdout, format: formatTable}).emit(nil, text(shown))
}

func benchTable(b bench.Table) string {
	headings := slices.Clone(b.Heading)
	for i := range headings[1:] {
		headings[i+1] = ">" + headings[i+1]
	}
	t := newTable(headings...)
	for _, row := range b.Rows {
		t.add(row...)
	}
	return t.String()
}

// verdict turns what a report found too bad into the exit status.
func verdict(r *bench.Report) error {
	switch {
	case len(r.Invalid) > 0:
		return &statusError{exitInvalid, "the run is invalid: " + strings.Join(r.Invalid, "; ")}
	case len(r.Failed) > 0:
		return &statusError{exitFailed, strings.Join(r.Failed, "; ")}
	}
	return nil
}

// benchForm is the --output of a benchmark.
type benchForm string

var benchForms = []string{"table", "json", "markdown", "csv"}

func (f *benchForm) String() string { return string(*f) }
func (f *benchForm) Type() string   { return "FORMAT" }

func (f *benchForm) Set(value string) error {
	if !slices.Contains(benchForms, value) {
		return errors.New("it is " + strings.Join(benchForms, ", "))
	}
	*f = benchForm(value)
	return nil
}

// seconds is a time given as a number of seconds or as a duration.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "SECONDS" }

func (s *seconds) Set(value string) error {
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		if !(n >= 0 && n < 1e9) {
			return errors.New("it must be positive")
		}
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(value)
	*s = seconds(d)
	return err
}
