package daemon

import (
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/rtd-project/rtd/internal/wire"
)

// proxyFromEnvironment reads HTTPS_PROXY for wss, HTTP_PROXY for ws, and NO_PROXY. Loopback is never dialled through a proxy.
func proxyFromEnvironment() func(*url.URL) (*url.URL, error) {
	find := httpproxy.FromEnvironment().ProxyFunc()
	schemes := map[string]string{"wss": "https", "ws": "http"}
	return func(u *url.URL) (*url.URL, error) {
		return find(&url.URL{Scheme: schemes[u.Scheme], Host: u.Host})
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
