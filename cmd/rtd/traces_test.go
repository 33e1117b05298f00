package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// The whole of it with a real process: a receiver with a certificate and a credential of its own, which changes.
func TestTracesOfAProcess(t *testing.T) {
	const first, second = "opaque-receiver-key-1", "opaque-receiver-key-2"
	up, receiver := wiretest.NewUpstream(t, wiretest.Ready), wiretest.NewTLSReceiver(t)
	path, _ := configFile(t, up)
	dir := filepath.Dir(path)
	credential, ca := filepath.Join(dir, "credential"), filepath.Join(dir, "ca.pem")
	write(t, credential, "Bearer "+first+"\n")
	write(t, ca, string(receiver.CA()))
	edit(t, path, "routes:", fmt.Sprintf(`traces:
  ca_file: %s
  headers: [{name: authorization, value_file: %s}]
routes:`, ca, credential))
	p := startProcess(t, []string{"RTD_TRACES_ENDPOINT=" + receiver.URL().String(), "RTD_TRACES_SERVICE_NAME=voice", "OTEL_SERVICE_NAME=nobody", "OTEL_EXPORTER_OTLP_HEADERS=x-other=1",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}, "--config", path, "--log-level", "trace")
	call := func() {
		t.Helper()
		c := wiretest.Connect(t, p.listen, "X-Request-Id: "+first)
		c.ExpectText(wiretest.SessionCreated)
		c.SendClose(1000, "")
		c.ExpectClose(1000)
		c.Conn.Close()
	}
	call()
	span := receiver.Await("rtd.session", 1)[0]
	if span.Resource["service.name"] != "voice" || span.Resource["deployment.environment.name"] != "test" {
		t.Errorf("sent by %v", span.Resource)
	}
	if strings.Contains(span.String(), first) {
		t.Errorf("the span holds the credential: %v", span)
	}
	write(t, credential, "Bearer "+second+"\n")
	p.signal(syscall.SIGHUP)
	p.awaitLog(saysReloaded, 1)
	receiver.Answer(func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) })
	call()
	p.awaitLog("traces cannot be sent", 1)
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	requests := receiver.Requests()
	for i, want := range []string{first, second} {
		if got := requests[i].Header; got.Get("Authorization") != "Bearer "+want || got.Get("X-Other") != "" {
			t.Errorf("request %d was sent with %v", i, got)
		}
	}
	if log := p.output(); strings.Contains(log, first) || strings.Contains(log, second) {
		t.Errorf("the log holds a credential of the receiver:\n%s", log)
	}
}
