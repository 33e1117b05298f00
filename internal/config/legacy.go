package config

import (
	"net"
	"strconv"
)

// DefaultModel is the model that is served when none is named.
const DefaultModel = "gpt-realtime"

// Names of what a plain start makes.
const (
	plainUpstream = "openai"
	plainKey      = "master"
)

// readPlainEnvironment makes the configuration of a start without a file: one route to OpenAI, from the variables that
// other gateways of the kind read.
func (l *loader) readPlainEnvironment() {
	l.plainListen()
	set := func(path, variable, fallback string) {
		value, o := l.env[variable], Origin{Variable: variable}
		if value == "" {
			value, o = fallback, Origin{}
		}
		if value == "" {
			return
		}
		l.grow(path)
		walk(l.file.keys(), "", func(p string, k key) {
			if p == path {
				l.set(k, path, []string{value}, o)
			}
		})
	}
	set("upstreams[0].name", "", plainUpstream)
	set("upstreams[0].provider", "", "openai")
	if l.env["OPENAI_API_KEY"] != "" {
		set("upstreams[0].api_key_env", "", "OPENAI_API_KEY")
		l.origins["upstreams[0].api_key_env"] = Origin{}
	}
	set("routes[0].models", "OPENAI_REALTIME_MODEL", DefaultModel)
	set("routes[0].upstream", "", plainUpstream)
	set("routes[0].pool.size", "REALTIME_POOL_SIZE", "")
	l.plainMaxIdle(set)
	if l.env["LITELLM_MASTER_KEY"] != "" {
		set("clients.keys[0].name", "", plainKey)
		set("clients.keys[0].key_env", "", "LITELLM_MASTER_KEY")
	}
}

func (l *loader) plainListen() {
	host, port := l.env["HOST"], l.env["PORT"]
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			l.fault(Origin{Variable: "PORT"}, "listen", "%s is no port between 0 and 65535", quote(port))
			return
		}
	}
	variable := "HOST"
	switch {
	case host == "" && port == "":
		return
	case host == "":
		host, variable = "127.0.0.1", "PORT"
	case port == "":
		port = "4001"
	}
	for _, k := range l.file.keys() {
		if k.name == "listen" {
			l.set(k, "listen", []string{net.JoinHostPort(host, port)}, Origin{Variable: variable})
		}
	}
}

func (l *loader) plainMaxIdle(set func(path, variable, fallback string)) {
	const variable, path = "REALTIME_POOL_MAX_IDLE_SECS", "routes[0].pool.max_idle"
	secs := l.env[variable]
	if secs == "" || secs == "0" {
		return
	}
	if !isDigits(secs) {
		l.fault(Origin{Variable: variable}, path, "%s is no whole number of seconds", quote(secs))
		return
	}
	set(path, "", secs+"s")
	l.origins[path] = Origin{Variable: variable}
}

// dropPlainKey forgets OPENAI_API_KEY, which a plain start takes for granted, for an upstream that is not OpenAI's.
func (l *loader) dropPlainKey() {
	for i := range l.file.Upstreams {
		u := &l.file.Upstreams[i]
		if l.name == "" && u.Provider != "openai" && l.origins[index("upstreams", i)+".api_key_env"] == (Origin{}) {
			u.APIKey.Env = ""
		}
	}
}
