package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

func (t *Traces) keys() []key {
	return []key{
		{name: "endpoint", scalar: text(&t.Endpoint).checked(`^https?://`, checkEndpoint),
			doc: "Base address of an OTLP receiver that takes HTTP with protobuf, http:// or https://, with or without /v1/traces at its end."},
		{name: "sample_ratio", scalar: number(&t.SampleRatio, 0, 1), def: "1",
			doc: "Share of the sessions that are traced, of those whose client sends no traceparent. With one, its sampled flag decides."},
		{name: "service_name", scalar: text(&t.ServiceName), def: "rtd", doc: "What the traces are filed under."},
		{name: "ca_file", scalar: path(&t.CAFile), defDoc: "the system's authorities",
			doc: "Certificates, in PEM, that the receiver's certificate must come from, in place of the system's."},
		{name: "headers", list: newList(&t.Headers, (*Header).keys), doc: "Headers that the receiver asks for, such as its credential."},
	}
}

func (h *Header) keys() []key {
	return append([]key{
		{name: "name", scalar: text(&h.Name).checked(headerName, checkHeaderName), required: true, doc: "Name of the header."},
	}, h.Value.keys("value", "its value")...)
}

// checkEndpoint refuses what can be no receiver of traces, and any place in it for a credential.
func checkEndpoint(v string) error {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "":
		return errors.New("is not a URL such as http://127.0.0.1:4318")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("does not begin with http:// or https://; rtd sends OTLP over HTTP, whose usual port is 4318")
	case u.User != nil:
		return errors.New("holds a user or password; name the credential in headers, with value_env, value_file or value_credential")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("holds a ? or a #, which mean nothing here")
	}
	return nil
}

// headerName is a token (RFC 9110 section 5.6.2).
const headerName = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

var headerForm = regexp.MustCompile(headerName)

// ownHeaders are those that rtd or its HTTP client set.
var ownHeaders = []string{"connection", "content-encoding", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"}

func checkHeaderName(v string) error {
	switch {
	case !headerForm.MatchString(v):
		return errors.New("is not the name of a header")
	case slices.Contains(ownHeaders, strings.ToLower(v)):
		return errors.New("is a header that rtd sets itself")
	}
	return nil
}

// checkTraces reports what does not go together.
func (l *loader) checkTraces() {
	t := l.file.Traces
	if l.isBad("traces") {
		return
	}
	endpoint := t.EndpointURL()
	switch {
	case endpoint == nil && t.CAFile != "":
		l.faultAt("traces.ca_file", "is of no use without endpoint; name it too")
	case endpoint == nil && len(t.Headers) > 0:
		l.faultAt("traces.headers", "are of no use without endpoint; name it too")
	case endpoint != nil && endpoint.Scheme == "http" && t.CAFile != "":
		l.faultAt("traces.ca_file", "is of no use with an http:// endpoint; use https://")
	case endpoint != nil && endpoint.Scheme == "http" && len(t.Headers) > 0 && !isLoopbackHost(endpoint.Hostname()):
		l.faultAt("traces.endpoint", "the headers would cross the network in clear; use https://")
	}
	seen := map[string]int{}
	for i, h := range t.Headers {
		path, name := index("traces.headers", i), strings.ToLower(h.Name)
		if j, ok := seen[name]; ok {
			l.faultAt(path+".name", "%s is the name of headers[%d] too; a header is sent once", quote(h.Name), j)
		}
		seen[name] = i
		if !h.Value.IsSet() {
			l.faultAt(path, "has no value; name it with value_env, value_file or value_credential")
		}
	}
}
