package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/rtd-project/rtd/internal/config"
	"github.com/rtd-project/rtd/internal/dialect"
)

const usage = `rtd keeps warm upstream realtime sessions and relays clients through them.

Usage:
  rtd --dev                         serve on loopback with a scripted upstream inside
  OPENAI_API_KEY=… rtd              serve OpenAI on 127.0.0.1:4001
  rtd --config /etc/rtd/rtd.yaml    serve what a file says; docs/configuration.md explains it
  rtd --upstream ws://127.0.0.1:8000/v1 --provider compatible --model NAME

Flags, which win over the environment and the file:
`

// options is what the command line says.
type options struct {
	path    string // of the configuration file
	flags   []config.Override
	dev     bool
	version bool
}

// list is a flag that can be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// keyFlag is a flag that sets a key of the configuration.
type keyFlag struct {
	name, key, usage string
	repeatable       bool
	values           list
}

func (f *keyFlag) String() string { return f.values.String() }

func (f *keyFlag) Set(v string) error {
	if !f.repeatable {
		f.values = nil
	}
	return f.values.Set(v)
}

func keyFlags() []*keyFlag {
	return []*keyFlag{
		{name: "listen", key: "listen", repeatable: true, usage: "data `address`, host:port; repeatable (default 127.0.0.1:4001)"},
		{name: "admin", key: "admin", usage: "admin HTTP `address` for /healthz, /readyz and /metrics (default 127.0.0.1:4002)"},
		{name: "socket", key: "control.socket", usage: "`path` of the control socket (default: see docs/configuration.md)"},
		{name: "model", key: "routes[0].models", repeatable: true, usage: "model `name` that clients ask for; repeatable, all share one upstream"},
		{name: "upstream", key: "upstreams[0].url", usage: "base `URL` of the upstream, ws:// or wss:// (default that of the provider)"},
		{name: "provider", key: "upstreams[0].provider", usage: "`dialect` of the upstream: " + strings.Join(dialect.Names(), ", ") + " (default openai)"},
		{name: "api-key-env", key: "upstreams[0].api_key_env", usage: "`name` of the environment variable with the upstream's key (default OPENAI_API_KEY for provider openai)"},
		{name: "upstream-ca", key: "upstreams[0].tls.ca_file", usage: "`file` with the certificates, in PEM, that verify the upstream, in place of the system's"},
		{name: "pool-size", key: "routes[0].pool.size", usage: "warm `sessions` to keep (default 8)"},
		{name: "max-connections", key: "routes[0].pool.max_connections", usage: "most upstream `connections` per target, 0 for no limit"},
		{name: "max-dialing", key: "routes[0].pool.max_dialing", usage: "most `sessions` being warmed at a time (default 16)"},
		{name: "grace", key: "shutdown.grace", usage: "`duration` that a stop lets sessions run on (default 30s)"},
		{name: "log-level", key: "log.level", usage: "`level`: trace, debug, info, warn or error (default info)"},
		{name: "log-format", key: "log.format", usage: "`form` of the log: text, json, or auto, text on a terminal and json elsewhere (default auto)"},
	}
}

// parseOptions reads the command line. Its errors are one line each.
func parseOptions(args []string, getenv func(string) string) (options, error) {
	var (
		o    options
		keys = keyFlags()
		fs   = flag.NewFlagSet("rtd", flag.ContinueOnError)
	)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.path, "config", "", "configuration `file` (default $"+config.ConfigVariable+", else the environment alone)")
	fs.BoolVar(&o.dev, "dev", false, "serve a scripted upstream on loopback: no key, no configuration")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	for _, f := range keys {
		fs.Var(f, f.name, f.usage)
	}
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
	for _, f := range keys {
		if len(f.values) > 0 {
			o.flags = append(o.flags, config.Override{Key: f.key, Values: f.values, Flag: "--" + f.name})
		}
	}
	if o.dev {
		err := o.checkDev()
		return o, err
	}
	if o.path == "" {
		o.path = getenv(config.ConfigVariable)
	}
	if o.path == "" {
		o.nameUpstream()
	}
	return o, nil
}

// checkDev refuses what --dev brings itself.
func (o *options) checkDev() error {
	if o.path != "" || o.given("--upstream") != nil || o.given("--api-key-env") != nil {
		return errors.New("--dev brings its own upstream; leave out --config, --upstream and --api-key-env")
	}
	return nil
}

// given returns the values of a flag, nil when it was not given.
func (o *options) given(flag string) []string {
	for _, f := range o.flags {
		if f.Flag == flag {
			return f.Values
		}
	}
	return nil
}

// nameUpstream calls the upstream of --upstream by its host: it is not the one that a start without a file is named for.
func (o *options) nameUpstream() {
	base := o.given("--upstream")
	if base == nil {
		return
	}
	if u, err := url.Parse(base[0]); err == nil && u.Host != "" {
		o.override("--upstream", "upstreams[0].name", u.Host)
		o.override("--upstream", "routes[0].upstream", u.Host)
	}
}

func (o *options) override(flag, key string, values ...string) {
	o.flags = append(o.flags, config.Override{Key: key, Values: values, Flag: flag})
}
