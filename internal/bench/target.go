package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Names of legs that mean something: the others are compared with the direct one, and an assertion without a leg is about
// the gateway.
const (
	LegDirect     = "direct"
	LegGateway    = "gateway"
	LegGatewayOff = "gateway-off"
)

// Target is an endpoint, and the name of the leg that goes there.
type Target struct {
	Name string
	// URL is complete, with the model in its query; see Endpoint.
	URL *url.URL
	// Header and Protocols go with every upgrade request. They may hold secrets; reports do not show them.
	Header    http.Header
	Protocols []string
	// TLS is used for wss; nil means the system's roots.
	TLS *tls.Config
}

// Endpoint makes the URL of a realtime endpoint of what people type: http is ws, a missing path is /v1/realtime, a path
// that does not end in /realtime gets that, and model goes into a query that names none.
func Endpoint(raw, model string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("it is not a URL such as wss://host/v1/realtime")
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return nil, fmt.Errorf("its scheme is %q, not ws or wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("it names no host")
	}
	switch path := strings.TrimRight(u.Path, "/"); {
	case path == "":
		u.Path = "/v1/realtime"
	case !strings.HasSuffix(path, "/realtime"):
		u.Path = path + "/realtime"
	}
	q := u.Query()
	if model != "" && !q.Has("model") && !q.Has("deployment") && !q.Has("call_id") && !q.Has("intent") {
		q.Set("model", model)
		u.RawQuery = q.Encode()
	}
	return u, nil
}

// shown is the URL without its query, which may hold a key.
func (t *Target) shown() string {
	return t.URL.Scheme + "://" + t.URL.Host + t.URL.Path
}
