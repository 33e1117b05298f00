package daemon

import (
	"errors"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/rtd-project/rtd/internal/wire"
)

// unreadable takes the place of a proxy's address that cannot be read: httpproxy would pass it over, or take all of it for
// a host and a path, and what was meant to go through a proxy would not.
const unreadable = "unreadable"

var errUnreadable = errors.New("the address of the proxy cannot be read")

// proxyFromEnvironment reads HTTPS_PROXY for wss, HTTP_PROXY for ws, and NO_PROXY. Loopback is never dialled through a proxy.
func proxyFromEnvironment() func(*url.URL) (*url.URL, error) {
	env := httpproxy.FromEnvironment()
	for _, address := range []*string{&env.HTTPSProxy, &env.HTTPProxy} {
		tried := (&httpproxy.Config{HTTPSProxy: *address}).ProxyFunc()
		if found, _ := tried(&url.URL{Scheme: "https", Host: "host.invalid"}); *address != "" && (found == nil || strings.Trim(found.Path, "/") != "") {
			*address = unreadable + "://proxy"
		}
	}
	find := env.ProxyFunc()
	schemes := map[string]string{"wss": "https", "ws": "http"}
	return func(u *url.URL) (*url.URL, error) {
		proxy, err := find(&url.URL{Scheme: schemes[u.Scheme], Host: u.Host})
		if proxy != nil && proxy.Scheme == unreadable {
			return nil, errUnreadable
		}
		return proxy, err
	}
}

// checkProxy reports a proxy on the way to u that cannot be used, and hides the credential of one that can.
func (e *endpoint) checkProxy(u *url.URL, hide func(secret string)) error {
	proxy, err := e.dialer.ProxyFor(u)
	if err != nil || proxy == nil || proxy.User == nil {
		return err
	}
	if password, ok := proxy.User.Password(); ok {
		hide(password)
	}
	hide(wire.ProxyCredential(proxy.User))
	return nil
}
