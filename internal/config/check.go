package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rtd-project/rtd/internal/dialect"
)

// complete fills what one part of a configuration says of another, and reports what is missing.
func (l *loader) complete() {
	l.missing(l.file.keys(), "")
	l.dropPlainKey()
	if len(l.file.Upstreams) == 1 {
		for i := range l.file.Routes {
			if r := &l.file.Routes[i]; r.Upstream == "" {
				r.Upstream = l.file.Upstreams[0].Name
			}
		}
	}
}

func (l *loader) missing(keys []key, prefix string) {
	for _, k := range keys {
		path := join(prefix, k.name)
		if _, given := l.origins[path]; k.required && !given && (k.list == nil || k.list.len() == 0) {
			l.faultAt(path, "is missing: %s", k.doc)
		}
		if k.list == nil {
			l.missing(k.keys, path)
			continue
		}
		if k.required && k.list.len() == 0 && !l.isBad(path) {
			l.faultAt(path, "is an empty list: %s", k.doc)
		}
		for i := range k.list.len() {
			if !l.hasFault(index(path, i)) {
				l.missing(k.list.item(i), index(path, i))
			}
		}
	}
}

// check reports what does not go together. It is silent about keys that have a fault already.
func (l *loader) check() {
	l.checkSecrets(l.file.keys(), "")
	l.checkAddresses()
	for i := range l.file.Upstreams {
		l.checkUpstream(i)
	}
	l.checkRoutes()
	l.checkPresets()
	l.checkClients()
	l.checkTLS()
	l.checkControl()
	l.checkAge()
	l.checkTraces()
	if s := l.file.Shutdown; s.Grace <= s.CloseTimeout && !l.isBad("shutdown") {
		l.faultAt("shutdown.grace", "%s leaves no room for close_timeout, which is %s; make it longer", showDuration(s.Grace), showDuration(s.CloseTimeout))
	}
}

// checkSecrets reports secrets that are named in two ways.
func (l *loader) checkSecrets(keys []key, prefix string) {
	for _, k := range keys {
		path := join(prefix, k.name)
		if k.list != nil {
			for i := range k.list.len() {
				l.checkSecrets(k.list.item(i), index(path, i))
			}
		}
		l.checkSecrets(k.keys, path)
		base, suffix := cutSecretSuffix(path)
		if k.secret == nil || *k.secret.field(suffix) == "" {
			continue
		}
		if refs := k.secret.refs(); refs[0] != suffix {
			l.faultAt(path, "%s names the same secret; keep one of them", lastPart(base)+refs[0])
		}
	}
}

func lastPart(path string) string { return path[strings.LastIndexAny(path, ".")+1:] }

func (l *loader) checkAddresses() {
	open := len(l.file.Clients.Keys) == 0 && l.file.TLS.ClientCAFile == "" // a certificate is as good as a key
	for i, a := range l.file.Listen {
		if open && !isLoopback(a) && !l.isBad("listen", "clients.keys", "tls.client_ca_file") {
			l.faultAt(index("listen", i), "%s is reachable from other hosts while there is no client key; use a loopback address or add one to clients.keys", quote(a))
		}
	}
	if !l.isBad("admin") && !isLoopback(l.file.Admin) {
		l.faultAt("admin", "%s is reachable from other hosts; use a loopback address", quote(l.file.Admin))
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopbackHost(host)
}

func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (l *loader) checkUpstream(i int) {
	path, u := index("upstreams", i), l.file.Upstreams[i]
	if l.isBad(path) {
		return
	}
	for j := range i {
		if l.file.Upstreams[j].Name == u.Name {
			l.faultAt(path+".name", "%s is the name of upstreams[%d] too; give each its own", quote(u.Name), j)
			return
		}
	}
	if !u.APIKey.IsSet() && u.Provider == "openai" && !l.file.Clients.PassThrough {
		l.noKey(path)
		return
	}
	if l.checkPair(path+".tls", u.TLS.CertFile, u.TLS.KeyFile); l.isBad(path) {
		return
	}
	base := u.BaseURL()
	if name := keyParameter(base); name != "" {
		l.faultAt(path+".url", "the query parameter %q looks like a credential; name the API key with api_key_env, api_key_file or api_key_credential", name)
		return
	}
	if secret := l.sent(u); secret != "" && base != nil && (base.Scheme == "ws" || base.Scheme == "http") && !isLoopbackHost(base.Hostname()) && !u.AllowPlaintext {
		l.faultAt(path+".url", "%s would cross the network in clear; use wss://, or set allow_plaintext: true", secret)
		return
	}
	l.checkHandshake(path, u)
}

// sent is what an upstream is sent that should stay secret, "" for nothing.
func (l *loader) sent(u Upstream) string {
	allows := func(r Route) bool { return r.Upstream == u.Name && r.AllowClientSecrets }
	switch {
	case u.APIKey.IsSet():
		return "the API key"
	case l.file.Clients.PassThrough || slices.ContainsFunc(l.file.Routes, allows):
		return "the credentials of clients"
	}
	return ""
}

// noKey reports an upstream that cannot be used without a key.
func (l *loader) noKey(path string) {
	if l.name == "" {
		l.fault(Origin{}, "", "no upstream key: set OPENAI_API_KEY, or try rtd --dev")
		return
	}
	l.faultAt(path, "the provider openai asks for a key; name it with api_key_env: OPENAI_API_KEY, api_key_file or api_key_credential")
}

// keyParameter returns the query parameter that could be nothing but a credential, "" for none.
func keyParameter(u *url.URL) string {
	if u == nil {
		return ""
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if looksSecret("?" + name + "=" + v) {
				return name
			}
		}
	}
	return ""
}

// checkHandshake renders the handshake once, so that an upstream that cannot be dialled as configured is found here.
func (l *loader) checkHandshake(path string, u Upstream) {
	d, ok := dialect.Lookup(u.Provider)
	if !ok {
		return
	}
	_, err := d.Target(dialect.Upstream{
		Dialect: u.Provider, Name: u.Name, BaseURL: u.BaseURL(), Organization: u.Organization, Project: u.Project,
		SafetyIdentifier: u.SafetyIdentifier, Beta: u.Beta, Model: u.Model,
	}, dialect.Ask{Model: "model"})
	if err != nil {
		key := path + ".url"
		if u.URL == "" {
			key = path
		}
		l.faultAt(key, "%s", oneLine(err.Error()))
	}
}

func (l *loader) checkRoutes() {
	var upstreams []string
	nameless := len(l.file.Upstreams) == 0
	for i, u := range l.file.Upstreams {
		upstreams = append(upstreams, u.Name)
		nameless = nameless || l.isBad(index("upstreams", i)+".name")
	}
	models, shared := map[string]string{}, map[string]string{}
	for i, r := range l.file.Routes {
		path := index("routes", i)
		for j, m := range r.Models {
			if other := models[m]; other != "" {
				l.faultAt(index(path+".models", j), "%s has a route already, %s", quote(m), other)
			} else {
				models[m] = path
			}
		}
		l.checkPool(path+".pool", r.Pool)
		l.checkRoutePreset(path+".preset", r.Preset)
		if nameless || l.isBad(path+".upstream") {
			continue
		}
		at := slices.Index(upstreams, r.Upstream)
		switch {
		case r.Upstream == "":
			l.faultAt(path+".upstream", "is missing: with several upstreams each route names its own, one of %s", strings.Join(upstreams, ", "))
		case at < 0:
			l.faultAt(path+".upstream", "there is no upstream %s; there are %s%s", quote(r.Upstream), strings.Join(upstreams, ", "), didYouMean(r.Upstream, upstreams))
		case l.file.Upstreams[at].Model != "":
			if other := shared[r.Upstream]; other != "" {
				l.faultAt(path, "%s goes to the same upstream, which names one model for all, so they share a pool; make them one route with all their models", other)
			}
			shared[r.Upstream] = path
		}
	}
}

// checkAge reports a warning that would come before the session, or never.
func (l *loader) checkAge() {
	warning, age := l.file.Limits.SessionWarning, l.file.Limits.MaxSessionAge
	switch {
	case warning == 0 || l.isBad("limits.session_warning", "limits.max_session_age"):
	case age == 0:
		l.faultAt("limits.session_warning", "is of no use without max_session_age; set that too")
	case warning > age:
		l.faultAt("limits.session_warning", "%s is above max_session_age, which is %s; make it shorter", showDuration(warning), showDuration(age))
	}
}

func (l *loader) checkTLS() {
	t := l.file.TLS
	l.checkPair("tls", t.CertFile, t.KeyFile)
	if t.CertFile != "" || t.KeyFile != "" || l.isBad("tls") {
		return
	}
	if t.ClientCAFile != "" {
		l.faultAt("tls.client_ca_file", "is of no use without cert_file and key_file; name them too")
	}
	if t.MinVersion != "" {
		l.faultAt("tls.min_version", "is of no use without cert_file and key_file; name them too")
	}
}

// checkControl reports control over TCP that would lack one of its files, and what is of no use without it.
func (l *loader) checkControl() {
	if l.isBad("control") {
		return
	}
	var given, missing []string
	c := l.file.Control
	for _, f := range []struct{ key, value string }{
		{"control.tls.cert_file", c.TLS.CertFile}, {"control.tls.key_file", c.TLS.KeyFile}, {"control.tls.client_ca_file", c.TLS.ClientCAFile},
	} {
		if f.value == "" {
			missing = append(missing, f.key)
		} else {
			given = append(given, f.key)
		}
	}
	if len(c.Admins) > 0 {
		given = append(given, "control.admins")
	}
	if c.Listen != "" && len(missing) > 0 {
		l.faultAt("control.listen", "is served over TLS with certificates on both sides only; name %s too", strings.Join(missing, ", "))
	}
	if c.Listen == "" {
		for _, key := range given {
			l.faultAt(key, "is of no use without control.listen; name the address too")
		}
	}
}

// checkPair reports a certificate without its private key, and the other way round.
func (l *loader) checkPair(path, cert, key string) {
	switch {
	case l.isBad(path+".cert_file", path+".key_file"):
	case cert != "" && key == "":
		l.faultAt(path+".cert_file", "goes with key_file; name both or neither")
	case cert == "" && key != "":
		l.faultAt(path+".key_file", "goes with cert_file; name both or neither")
	}
}

func (l *loader) checkPool(path string, p Pool) {
	if l.isBad(path) {
		return
	}
	if p.Size > p.MaxSize {
		l.faultAt(path+".size", "%d is above max_size, which is %d", p.Size, p.MaxSize)
	}
	if p.BackoffMin > p.BackoffMax {
		l.faultAt(path+".backoff_min", "%s is above backoff_max, which is %s", showDuration(p.BackoffMin), showDuration(p.BackoffMax))
	}
}

// minRate is the least rate of connects that is one.
const minRate = 0.001

func (l *loader) checkClients() {
	known := map[string]int{}
	for i, k := range l.file.Clients.Keys {
		path := index("clients.keys", i)
		if l.isBad(path) {
			continue
		}
		if j, ok := known[k.Name]; ok {
			l.faultAt(path+".name", "%s is the name of clients.keys[%d] too; give each its own", quote(k.Name), j)
			continue
		}
		known[k.Name] = i
		switch {
		case k.SHA256 == "" && !k.Key.IsSet():
			l.faultAt(path, "has no key; name it with key_env, key_file or key_credential, or give its sha256")
		case k.SHA256 != "" && k.Key.IsSet():
			l.faultAt(path+".sha256", "key%s names the same key; keep one of them", k.Key.refs()[0])
		}
		if r := k.ConnectsPerSecond; r > 0 && r < minRate {
			l.faultAt(path+".connects_per_second", "%v is less than %v, four in an hour; use 0 for any rate", r, minRate)
		}
		l.checkKeyModels(path, k)
	}
	if t := l.file.Clients.Tokens; t.DefaultTTL > t.MaxTTL && !l.isBad("clients.tokens") {
		l.faultAt("clients.tokens.default_ttl", "%s is above max_ttl, which is %s", showDuration(t.DefaultTTL), showDuration(t.MaxTTL))
	}
}

// checkKeyModels reports models of a key that nobody could ask for.
func (l *loader) checkKeyModels(path string, k Key) {
	if l.hasFault("routes") {
		return
	}
	var routed []string
	for i, r := range l.file.Routes {
		if route := index("routes", i); l.hasFault(route) || l.isBad(route+".models") {
			return
		}
		routed = append(routed, r.Models...)
	}
	for i, m := range k.Models {
		if !slices.Contains(routed, m) {
			l.faultAt(index(path+".models", i), "no route has the model %s%s", quote(m), didYouMean(m, routed))
		}
	}
}

func (l *loader) checkPresets() {
	known := map[string]int{}
	for i, p := range l.file.Presets {
		path := index("presets", i) + ".name"
		if l.isBad(path) {
			continue
		}
		if j, ok := known[p.Name]; ok {
			l.faultAt(path, "%s is the name of presets[%d] too; give each its own", quote(p.Name), j)
			continue
		}
		known[p.Name] = i
	}
}

func (l *loader) checkRoutePreset(path, name string) {
	if name == "" || l.isBad(path) || l.hasFault("presets") {
		return
	}
	var known []string
	for i, p := range l.file.Presets {
		if preset := index("presets", i); l.hasFault(preset) || l.isBad(preset+".name") {
			return
		}
		known = append(known, p.Name)
	}
	switch {
	case len(known) == 0:
		l.faultAt(path, "there is no preset %s; there is none under presets", quote(name))
	case !slices.Contains(known, name):
		l.faultAt(path, "there is no preset %s; there are %s%s", quote(name), strings.Join(known, ", "), didYouMean(name, known))
	}
}
