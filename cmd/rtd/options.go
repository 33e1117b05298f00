package main

import (
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/daemon"
	"github.com/rtd-project/rtd/internal/dialect"
)

const usage = `rtd keeps warm upstream realtime sessions and relays clients through them.

Usage:
  rtd --dev                         serve on loopback with a scripted upstream inside
  OPENAI_API_KEY=… rtd              serve OpenAI on 127.0.0.1:4001
  rtd --upstream ws://127.0.0.1:8000/v1 --provider compatible --model NAME

Flags:
`

// options is what the command line and the environment say.
type options struct {
	config  daemon.Config
	dev     bool
	version bool
}

// list is a repeatable flag.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// parseOptions reads flags over the environment. Its errors are one line each.
func parseOptions(args []string, getenv func(string) string) (options, error) {
	cfg, err := daemon.FromEnv(getenv)
	if err != nil {
		return options{}, err
	}
	var (
		o              = options{config: cfg}
		listen, models list
		route          = &o.config.Routes[0]
		fs             = flag.NewFlagSet("rtd", flag.ContinueOnError)
	)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.dev, "dev", false, "serve a scripted upstream on loopback: no key, no configuration")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	fs.Var(&listen, "listen", "data `address`, host:port; repeatable (default "+daemon.DefaultListen+")")
	fs.StringVar(&o.config.Admin, "admin", daemon.DefaultAdmin, "admin HTTP `address` for /healthz and /readyz")
	fs.StringVar(&o.config.Socket, "socket", getenv("RTD_SOCKET"), "`path` of the control socket (default: see docs/operating.md)")
	fs.Var(&models, "model", "model `name` that clients ask for; repeatable, all share one upstream")
	upstream := fs.String("upstream", "", "base `URL` of the upstream, ws:// or wss:// (default that of the provider)")
	fs.StringVar(&route.Upstream.Dialect, "provider", route.Upstream.Dialect, "`dialect` of the upstream: "+strings.Join(dialect.Names(), ", "))
	keyEnv := fs.String("api-key-env", "", "`name` of the environment variable with the upstream's key (default OPENAI_API_KEY for provider openai)")
	fs.IntVar(&route.Pool.Size, "pool-size", route.Pool.Size, "warm sessions `to keep`")
	ca := fs.String("upstream-ca", "", "`file` with the certificates, in PEM, that verify the upstream, in place of the system's")
	fs.IntVar(&route.Pool.MaxConnections, "max-connections", 0, "most upstream connections per target, 0 for no limit")
	fs.IntVar(&route.Pool.MaxDialing, "max-dialing", 0, "most sessions being warmed at a time, 0 for 16")
	fs.DurationVar(&o.config.Grace, "grace", daemon.DefaultGrace, "how long a stop lets sessions run on")
	level := fs.String("log-level", "info", "trace, debug, info, warn or error")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print(usage)
			fs.SetOutput(os.Stdout)
			fs.PrintDefaults()
		}
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; rtd takes flags only, see rtd --help", fs.Arg(0))
	}
	if o.config.LogLevel = hclog.LevelFromString(*level); o.config.LogLevel == hclog.NoLevel {
		return o, fmt.Errorf("--log-level: %q is none of trace, debug, info, warn, error", *level)
	}
	if len(listen) > 0 {
		o.config.Listen = listen
	}
	if len(models) > 0 {
		route.Models = models
	}
	if err := o.upstream(*upstream, *keyEnv, getenv); err != nil {
		return o, err
	}
	route.Upstream.RootCAs, err = readCA(*ca)
	return o, err
}

// readCA reads the certificates in a file; nil, the system's, for no file.
func readCA(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--upstream-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--upstream-ca: %s holds no certificate in PEM", file)
	}
	return roots, nil
}

// upstream settles where the one route of the command line goes.
func (o *options) upstream(base, keyEnv string, getenv func(string) string) error {
	u := &o.config.Routes[0].Upstream
	if o.dev {
		if base != "" || keyEnv != "" {
			return errors.New("--dev brings its own upstream; leave out --upstream and --api-key-env")
		}
		return nil // serve starts the scripted upstream and fills in its URL
	}
	if base != "" {
		parsed, err := url.Parse(base)
		if err != nil || parsed.Host == "" {
			return fmt.Errorf("--upstream: %q is not a URL such as wss://host/v1", base)
		}
		u.BaseURL, u.Name = parsed, parsed.Host
	}
	if u.Dialect != "openai" {
		u.Credential = ""
	}
	if keyEnv != "" {
		if u.Credential = getenv(keyEnv); u.Credential == "" {
			return fmt.Errorf("--api-key-env: the variable %s is not set", keyEnv)
		}
	}
	if u.Dialect == "openai" && u.Credential == "" && !o.version {
		return errors.New("no upstream key: set OPENAI_API_KEY, or try rtd --dev")
	}
	return nil
}
