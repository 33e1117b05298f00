package daemon

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
)

// newAdminServer serves the health of the daemon, /healthz says that the process works, /readyz that it takes clients, and
// its /metrics.
func (d *Daemon) newAdminServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, "") })
	mux.Handle("GET /metrics", d.metricsHandler())
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, d.notReady()) })
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          d.log.Named("admin").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
}

func answerHealth(w http.ResponseWriter, fault string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if fault != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, fault)
		return
	}
	fmt.Fprintln(w, "ok")
}

// notReady says why clients should go elsewhere, "" when they need not.
func (d *Daemon) notReady() string {
	if d.sessions.isClosed() {
		return "draining"
	}
	if want := d.current().cfg.MinWarm; want > 0 {
		if warm := d.warm(); warm < want {
			return fmt.Sprintf("warming: %d of %d sessions", warm, want)
		}
	}
	return ""
}

// warm counts the idle sessions of all pools.
func (d *Daemon) warm() (n int) {
	for _, p := range d.pools.List() {
		n += p.Stats().Idle
	}
	return n
}
