package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// expectFaults loads text and compares every fault with a line of want.
func expectFaults(t *testing.T, text string, want ...string) {
	t.Helper()
	_, err := loadText(text)
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nfor\n%s", got, strings.Join(want, "\n"), text)
	}
}

// All faults of a file come at once, in the order of the file.
func TestAllFaultsAtOnce(t *testing.T) {
	expectFaults(t, `listen: [127.0.0.1:4001, 0.0.0.0:4001]
log:
  lvel: debug
  format: xml
upstreams:
  - name: a
    provider: opnai
    api_key: sk-test-SECRET1234
    url: ftp://user:sk-test-SECRET1234@host/v1
  - name: b
    provider: compatible
    api_key_env: sk-test-SECRET1234
    ping_interval: 10
routes:
  - models: [5, x, x]
    upstream: c
    pool: {size: "8", max_size: many, max_idle: 0s}
limits:
  max_message: 33554432
  write_stall: 1 hour
log: {level: info}
size: 7
`,
		`rtd.yaml:1:26: listen[1]: "0.0.0.0:4001" is reachable from other hosts while there is no client key; use a loopback address or add one to clients.keys`,
		`rtd.yaml:3:3: log.lvel: there is no such key; did you mean level?`,
		`rtd.yaml:4:11: log.format: "xml" is none of auto, text, json`,
		`rtd.yaml:7:15: upstreams[0].provider: "opnai" is none of compatible, openai; did you mean openai?`,
		`rtd.yaml:8:5: upstreams[0].api_key: secrets are not written here; put it into an environment variable, a file or a systemd credential, and name that with api_key_env, api_key_file or api_key_credential`,
		`rtd.yaml:9:10: upstreams[0].url: looks like a secret; secrets are not written here, but named: with …_env, …_file or …_credential`,
		`rtd.yaml:12:18: upstreams[1].api_key_env: looks like the secret itself; give the name of the environment variable that holds it`,
		`rtd.yaml:13:20: upstreams[1].ping_interval: "10" has no unit; write 10s, or ms, m or h`,
		`rtd.yaml:15:14: routes[0].models[0]: is no text to YAML; write it in quotes, as "5"`,
		`rtd.yaml:15:20: routes[0].models[2]: "x" is given twice`,
		`rtd.yaml:16:15: routes[0].upstream: there is no upstream "c"; there are a, b; did you mean a?`,
		`rtd.yaml:17:18: routes[0].pool.size: is text in quotes where a whole number belongs; leave the quotes out`,
		`rtd.yaml:17:33: routes[0].pool.max_size: "many" is not a whole number between 1 and 1000000`,
		`rtd.yaml:17:49: routes[0].pool.max_idle: "0s" is not between 1ms and 8760h`,
		`rtd.yaml:19:16: limits.max_message: "33554432" has no unit; write 33554432B, or KiB, MiB or GiB`,
		`rtd.yaml:20:16: limits.write_stall: "1 hour" is not a duration such as 250ms, 10s, 5m or 1h30m`,
		`rtd.yaml:21:1: log: is given twice, first on line 2; keep one`,
		`rtd.yaml:22:1: size: there is no such key here; it belongs under routes[].pool`,
	)
}

func TestWhatIsNoConfiguration(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		expectFaults(t, text, want)
	}
	f("a: b: c\n", "rtd.yaml:1:4: this is not YAML: mapping value is not allowed in this context")
	f("listen: \"abc", "rtd.yaml:1:9: this is not YAML: could not find end character of double-quoted text")
	f("- a\n", "rtd.yaml:1:1: the file is a list where there should be keys of its own, one of "+strings.Join(names(newFile().keys()), ", "))
	f("word", "rtd.yaml:1:1: the file is a single value where there should be keys of its own, one of "+strings.Join(names(newFile().keys()), ", "))
	f(plain+"---\nadmin: x\n", "rtd.yaml:8:6: a second document begins here; a configuration is one")
	const references = "anchors and aliases are not supported; write the value out"
	f("&a\nlisten: x\n", "rtd.yaml:1:1: "+references)
	f("x: &a {b: 1}\n", "rtd.yaml:1:4: "+references)
	f("&a log: {level: info}\n", "rtd.yaml:1:1: "+references)
	f("*x : 1\n", "rtd.yaml:1:1: "+references)
	f("log: &\n", "rtd.yaml:1:6: "+references)
	f("log: *\n", "rtd.yaml:1:6: "+references)
}

func TestBytesThatAreNoText(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		expectFaults(t, text, want)
	}
	const nul, encoding = "there is a NUL byte; a configuration is plain text", "there is a byte that is no UTF-8; save the file in UTF-8"
	f("\x00", "rtd.yaml:1:1: "+nul)
	f(plain+"# \u00e9\x00", "rtd.yaml:7:4: "+nul)
	f("\xff\xfe", "rtd.yaml:1:1: "+encoding)
	f("admin: 127.0.0.1:1\nlisten: [\"\u00e9\xe9\"]\n", "rtd.yaml:2:12: "+encoding)
	expectFaults(t, "\ufeff"+plain+"# \u00e9\ufffd\n")
}

// What is nested deeper than any configuration is refused before the parser, whose memory it would fill.
func TestDeepNesting(t *testing.T) {
	const message = "brackets or blocks are nested more than 64 deep; a configuration needs a few levels"
	f := func(text, place string) {
		t.Helper()
		began := time.Now()
		_, err := loadText(text)
		if place == "" && err != nil && strings.Contains(err.Error(), message) || place != "" && (err == nil || err.Error() != "rtd.yaml:"+place+": "+message) {
			t.Errorf("%.40q: %v, want a fault at %q", text, err, place)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%.40q took %v", text, d)
		}
	}
	var blocks, dashes strings.Builder
	for i := range 100 {
		blocks.WriteString(strings.Repeat(" ", i) + "a:\n")
		dashes.WriteString(strings.Repeat(" ", i) + "-\n")
	}
	f(strings.Repeat("[", 40_000), "1:64")
	f(strings.Repeat("{a: ", 40_000), "1:253")
	f("listen:\n  "+strings.Repeat("[", 40_000), "2:65")
	f("listen: '[' # [\nadmin: "+strings.Repeat("[\n", 40_000), "65:1")
	f("x: !t "+strings.Repeat("[", 40_000), "1:71")
	f("x: \"\\\"[\" \ny: 'it''s [' \nz: "+strings.Repeat("[", 40_000), "3:67")
	f("x: a[\ny: b'\nz: "+strings.Repeat("[", 40_000), "3:67")
	f("# comment\r"+strings.Repeat("[", 40_000), "1:74")
	f(strings.Repeat("- ", 40_000), "1:129")
	f(blocks.String(), "65:65")
	f(dashes.String(), "65:65")

	f("listen: ['"+strings.Repeat("[", 40_000)+"']", "")
	f("# "+strings.Repeat("[", 40_000), "")
	f("x: "+strings.Repeat("[", 60)+strings.Repeat("]", 60), "")
	f(strings.Repeat("x: [{}]\n", 200)+strings.Repeat("- - a\n", 200), "")
}

// What loading costs grows with the number of items, and not by what has to be made once only.
func TestAnItemIsCheap(t *testing.T) {
	f := func(name string, most float64, keys func() []key) {
		t.Helper()
		keys()
		if n := testing.AllocsPerRun(10, func() { keys() }); n > most {
			t.Errorf("the keys of %s take %v allocations, want %v at most", name, n, most)
		}
	}
	f("a client key", 150, (&Key{}).keys)
	f("a route", 150, (&Route{}).keys)
	f("an upstream", 150, (&Upstream{}).keys)
}

func TestKeysThatAreNone(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		expectFaults(t, plain+text, want...)
	}
	f("api_key: sk-test-SECRET", "rtd.yaml:7:1: api_key: there is no such key, and secrets are not written here; name them, where they are used, with …_env, …_file or …_credential")
	f("sk-test-SECRET12: x", "rtd.yaml:7:1: (not repeated): there is no such key; here are "+strings.Join(names(newFile().keys()), ", "))
	f("true: x", "rtd.yaml:7:1: a key that is not plain text; there is none such")
	f("log: {<<: {level: info}}", "rtd.yaml:7:7: log: merge keys (<<) are not supported; write the keys out")
	f("lisen: [127.0.0.1:1]", "rtd.yaml:7:1: lisen: there is no such key; did you mean listen?")
	f("limits: {grace: 5s}", "rtd.yaml:7:10: limits.grace: there is no such key here; it belongs under shutdown")
	f("limits: {bananas: 5s}", "rtd.yaml:7:10: limits.bananas: there is no such key; here are "+strings.Join(names((&Limits{}).keys()), ", "))
	f("limits:", "rtd.yaml:7:1: limits: has no value; give one or leave the key out")
	f("limits: 5", "rtd.yaml:7:1: limits: is a single value where there should be keys of its own, one of "+strings.Join(names((&Limits{}).keys()), ", "))
	f("clients: {keys: {name: x}}", "rtd.yaml:7:11: clients.keys: is a group of keys where there should be a list; begin each item with a dash")
	f("clients: {keys: [x]}",
		"rtd.yaml:7:18: clients.keys[0]: is a single value where there should be keys of its own, one of "+strings.Join(names((&Key{}).keys()), ", "))
}

func TestWhatDoesNotGoTogether(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		expectFaults(t, text, want...)
	}
	f("{}",
		"rtd.yaml: upstreams: is missing: Provider endpoints.",
		"rtd.yaml: routes: is missing: Which models go to which upstream, each with a pool of warm sessions.")
	f("upstreams: []\nroutes: []",
		"rtd.yaml:1:1: upstreams: is an empty list: Provider endpoints.",
		"rtd.yaml:2:1: routes: is an empty list: Which models go to which upstream, each with a pool of warm sessions.")
	f("upstreams: [{name: a, provider: openai}]\nroutes: [{models: [m]}]",
		"rtd.yaml:1:14: upstreams[0]: the provider openai asks for a key; name it with api_key_env: OPENAI_API_KEY, api_key_file or api_key_credential")
	f("upstreams: [{name: a, provider: compatible}]\nroutes: [{models: [m]}]",
		"rtd.yaml:1:14: upstreams[0]: upstream cannot be dialled: the compatible dialect has no address of its own; configure a base URL")
	f("upstreams: [{name: a}]\nroutes: [{}]",
		"rtd.yaml:1:14: upstreams[0].provider: is missing: Whose protocol it speaks: openai, or compatible for a server with the same protocol.",
		"rtd.yaml:2:10: routes[0].models: is missing: Names that clients ask for. A session that names no model takes the first route.")

	up := func(keys string) string {
		return "upstreams:\n  - {name: a, provider: compatible, " + keys + "}\nroutes:\n  - {models: [m]}\n"
	}
	f(up("url: ws://example.com/v1, api_key_env: KEY"), "rtd.yaml:2:42: upstreams[0].url: the API key would cross the network in clear; use wss://, or set allow_plaintext: true")
	f(up("url: ws://example.com/v1, api_key_env: KEY, allow_plaintext: true"))
	f(up("url: ws://example.com/v1"))
	f(strings.Replace(up("url: ws://example.com/v1"), "[m]}", "[m], allow_client_secrets: true}", 1), "rtd.yaml:2:42: upstreams[0].url: the credentials of clients would cross the network in clear; use wss://, or set allow_plaintext: true")
	f(up("url: ws://example.com/v1")+"clients: {pass_through: true}\n", "rtd.yaml:2:42: upstreams[0].url: the credentials of clients would cross the network in clear; use wss://, or set allow_plaintext: true")
	f(up("url: ws://127.9.9.9/v1, api_key_env: KEY"))
	f(up("url: 'http://[::1]/v1', api_key_env: KEY"))
	f(up("url: wss://x/v1?api_key=abcdefgh"), "rtd.yaml:2:42: upstreams[0].url: looks like a secret; secrets are not written here, but named: with …_env, …_file or …_credential")
	f(up("url: wss://user@x/v1"), "rtd.yaml:2:42: upstreams[0].url: the value holds a user or password; name the API key with api_key_env, api_key_file or api_key_credential")
	f(up("url: wss://x/v1, api_key_env: A, api_key_file: b"), "rtd.yaml:2:84: upstreams[0].api_key_file: api_key_env names the same secret; keep one of them")
	f(up("url: wss://x/v1")+"  - {models: [m]}\n", `rtd.yaml:5:15: routes[1].models[0]: "m" has a route already, routes[0]`)
	f(up("url: wss://x/v1, model: n")+"  - {models: [o]}\n", "rtd.yaml:5:6: routes[1]: routes[0] goes to the same upstream, which names one model for all, so they share a pool; make them one route with all their models")

	f(plain+"    pool: {size: 5, max_size: 4}\n", "rtd.yaml:7:18: routes[0].pool.size: 5 is above max_size, which is 4")
	f(plain+"    pool: {backoff_min: 20s}\n", "rtd.yaml:7:25: routes[0].pool.backoff_min: 20s is above backoff_max, which is 15s")
	f(plain+"shutdown: {close_timeout: 30s}\n", "rtd.yaml:7:1: shutdown.grace: 30s leaves no room for close_timeout, which is 30s; make it longer")
	f(plain+"limits: {session_warning: 1m}\n", "rtd.yaml:7:27: limits.session_warning: is of no use without max_session_age; set that too")
	f(plain+"limits: {session_warning: 2h, max_session_age: 90m}\n", "rtd.yaml:7:27: limits.session_warning: 2h is above max_session_age, which is 1h30m; make it shorter")
	f(plain + "limits: {session_warning: 90m, max_session_age: 90m}\n")
	f(plain+"limits: {session_warning: 1m, max_session_age: 1}\n", `rtd.yaml:7:48: limits.max_session_age: "1" has no unit; write 1s, or ms, m or h`)
	f(plain+"admin: 10.0.0.1:1\n", `rtd.yaml:7:8: admin: "10.0.0.1:1" is reachable from other hosts; use a loopback address`)
	f(plain+"clients: {keys: [{name: a}]}\n", "rtd.yaml:7:19: clients.keys[0]: has no key; name it with key_env, key_file or key_credential, or give its sha256")
	f(plain+"clients: {keys: [{name: a, key_env: A}, {name: a, key_env: B}]}\n", `rtd.yaml:7:48: clients.keys[1].name: "a" is the name of clients.keys[0] too; give each its own`)
	f(plain+"clients: {keys: [{name: a, key_env: A, sha256: "+strings.Repeat("0a", 32)+"}]}\n", "rtd.yaml:7:48: clients.keys[0].sha256: key_env names the same key; keep one of them")
	f(plain+"clients: {keys: [{name: a, key_env: A, models: [gpt-realtme]}]}\n", `rtd.yaml:7:49: clients.keys[0].models[0]: no route has the model "gpt-realtme"; did you mean gpt-realtime?`)
	f(plain+"    pool: {size: -1}\nclients: {keys: [{name: a, key_env: A, models: [gpt-realtme]}]}\n", "rtd.yaml:7:18: routes[0].pool.size: \"-1\" is not between 0 and 1000000",
		`rtd.yaml:8:49: clients.keys[0].models[0]: no route has the model "gpt-realtme"; did you mean gpt-realtime?`)
	f(plain+"clients: {keys: [{name: a, key_env: A, connects_per_second: 0.0009}]}\n",
		"rtd.yaml:7:61: clients.keys[0].connects_per_second: 0.0009 is less than 0.001, four in an hour; use 0 for any rate")
	f(plain + "clients: {keys: [{name: a, key_env: A, connects_per_second: 0.001}]}\n")
	f(plain+"clients: {tokens: {default_ttl: 3h}}\n", "rtd.yaml:7:33: clients.tokens.default_ttl: 3h is above max_ttl, which is 2h")
	f(plain+"tls: {cert_file: c}\n", "rtd.yaml:7:18: tls.cert_file: goes with key_file; name both or neither")
	f(plain+"tls: {key_file: c}\n", "rtd.yaml:7:17: tls.key_file: goes with cert_file; name both or neither")
	f(plain+"tls: {client_ca_file: c, min_version: \"1.3\"}\n",
		"rtd.yaml:7:23: tls.client_ca_file: is of no use without cert_file and key_file; name them too",
		"rtd.yaml:7:39: tls.min_version: is of no use without cert_file and key_file; name them too")
	f(plain + "tls: {cert_file: c, key_file: k, client_ca_file: c, min_version: \"1.3\"}\n")
	f(plain+"control: {listen: 0.0.0.0:4003}\n",
		"rtd.yaml:7:19: control.listen: is served over TLS with certificates on both sides only; name control.tls.cert_file, control.tls.key_file, control.tls.client_ca_file too")
	f(plain+"control: {listen: 0.0.0.0:4003, tls: {cert_file: c, key_file: k}}\n",
		"rtd.yaml:7:19: control.listen: is served over TLS with certificates on both sides only; name control.tls.client_ca_file too")
	f(plain+"control: {tls: {key_file: k}, admins: [ops]}\n",
		"rtd.yaml:7:27: control.tls.key_file: is of no use without control.listen; name the address too",
		"rtd.yaml:7:31: control.admins: is of no use without control.listen; name the address too")
	f(plain + "control: {listen: 0.0.0.0:4003, tls: {cert_file: c, key_file: k, client_ca_file: c}, admins: [ops]}\n")
	f(plain+"traces: {ca_file: c}\n", "rtd.yaml:7:19: traces.ca_file: is of no use without endpoint; name it too")
	f(plain+"traces: {headers: [{name: x, value_env: A}]}\n", "rtd.yaml:7:10: traces.headers: are of no use without endpoint; name it too")
	f(plain+"traces: {endpoint: 'http://127.0.0.1:4318', ca_file: c}\n", "rtd.yaml:7:54: traces.ca_file: is of no use with an http:// endpoint; use https://")
	f(plain+"traces: {endpoint: 'http://otel:4318', headers: [{name: x, value_env: A}]}\n", "rtd.yaml:7:20: traces.endpoint: the headers would cross the network in clear; use https://")
	f(plain + "traces: {endpoint: 'http://otel:4318'}\n")
	f(plain + "traces: {endpoint: 'http://[::1]:4318', headers: [{name: x, value_env: A}]}\n")
	f(plain+"traces: {endpoint: 'http://localhost:4318', headers: [{name: x, value_env: A}, {name: X, value_env: A}, {name: z}]}\n",
		`rtd.yaml:7:87: traces.headers[1].name: "X" is the name of headers[0] too; a header is sent once`,
		"rtd.yaml:7:106: traces.headers[2]: has no value; name it with value_env, value_file or value_credential")
	f(plain+"traces: {endpoint: 'https://otel', headers: [{name: Host, value_env: A}]}\n", `rtd.yaml:7:53: traces.headers[0].name: "Host" is a header that rtd sets itself`)
	f(plain+"traces: {endpoint: 'https://otel', headers: [{name: x, value: A}]}\n",
		"rtd.yaml:7:56: traces.headers[0].value: secrets are not written here; put it into an environment variable, a file or a systemd credential, and name that with value_env, value_file or value_credential")
	f(plain+"traces: {endpoint: 'https://user:correct-horse@otel'}\n", `rtd.yaml:7:20: traces.endpoint: the value holds a user or password; name the credential in headers, with value_env, value_file or value_credential`)
	f(plain+"traces: {endpoint: 'https://otel?x=y'}\n", `rtd.yaml:7:20: traces.endpoint: "https://otel?x=y" holds a ? or a #, which mean nothing here`)
	f(up("url: wss://x/v1, tls: {cert_file: c}"), "rtd.yaml:2:71: upstreams[0].tls.cert_file: goes with key_file; name both or neither")
	f(plain + "listen: [0.0.0.0:1]\nclients: {keys: [{name: a, key_env: A}]}\n")
	f(plain + "listen: [0.0.0.0:1]\ntls: {cert_file: c, key_file: k, client_ca_file: c}\n") // a client's certificate is as good as a key
	f("upstreams: [{name: a, provider: compatible, url: wss://x}, {name: a, provider: compatible, url: wss://y}]\nroutes: [{models: [m]}]",
		`rtd.yaml:1:67: upstreams[1].name: "a" is the name of upstreams[0] too; give each its own`)
	f("upstreams: [{name: a, provider: compatible, url: wss://x}, {name: b, provider: compatible, url: wss://y}]\nroutes: [{models: [m]}]",
		"rtd.yaml:2:11: routes[0].upstream: is missing: with several upstreams each route names its own, one of a, b")
}

func TestAllFaults(t *testing.T) {
	if fs := AllFaults(nil); len(fs) != 0 {
		t.Errorf("%v", fs)
	}
	if fs := AllFaults(errors.New("x")); len(fs) != 1 || fs.Error() != "x" {
		t.Errorf("%v", fs)
	}
	if fs := AllFaults(Fault{Key: "k", Message: "m"}); len(fs) != 1 || fs.Error() != "k: m" {
		t.Errorf("%v", fs)
	}
}

func TestNearest(t *testing.T) {
	f := func(v, want string) {
		t.Helper()
		if got := nearest(v, []string{"listen", "level", "log", "max_size", "max_message"}); got != want {
			t.Errorf("%s: %q, want %q", v, got, want)
		}
	}
	f("lisen", "listen")
	f("listne", "listen")
	f("maxsize", "max_size")
	f("max-message", "max_message")
	f("lvel", "level")
	f("bananas", "")
	f("x", "")
	f(strings.Repeat("x", 100), "")
}
