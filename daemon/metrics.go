package daemon

import (
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rtd-project/rtd/internal/stats"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// maxScrapes bounds the scrapes that are answered at a time.
const maxScrapes = 4

// scrape is what one scrape sees: the same that rtctl does.
type scrape struct {
	stats    *rtdv1.Stats
	snapshot *stats.Snapshot
	started  time.Time
	build    Build
	ready    bool
}

// kind is a metric's type, as Prometheus names it.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// metric is one family of /metrics. All of them stand in metricFamilies, which the documentation is made from.
type metric struct {
	name   string
	kind   kind
	help   string
	labels []string
	// collect emits the samples of a counter or a gauge, each with a value for every label.
	collect func(s *scrape, emit func(v float64, labels ...string))
	// phases are those that a histogram shows, each with a value for every label but the last two, target and result.
	phases []phaseLabels
}

type phaseLabels struct {
	phase  stats.Phase
	labels []string
}

// desc is how the family describes itself.
func (m *metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.name, m.help, m.labels, nil) }

// exporter is a prometheus.Collector over the families.
type exporter struct {
	d     *Daemon
	descs []*prometheus.Desc
}

func newExporter(d *Daemon) *exporter {
	e := &exporter{d: d}
	for i := range metricFamilies {
		e.descs = append(e.descs, metricFamilies[i].desc())
	}
	return e
}

// Describe implements prometheus.Collector.
func (e *exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range e.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (e *exporter) Collect(ch chan<- prometheus.Metric) {
	now := e.d.moment()
	s := &scrape{
		stats: e.d.statsMessage(now), snapshot: now.snapshot, started: e.d.started, build: ReadBuild(), ready: e.d.notReady() == "",
	}
	for i := range metricFamilies {
		m, desc := &metricFamilies[i], e.descs[i]
		if m.kind == histogram {
			collectPhases(ch, desc, m.phases, s)
			continue
		}
		value := prometheus.GaugeValue
		if m.kind == counter {
			value = prometheus.CounterValue
		}
		m.collect(s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(desc, value, v, labels...) })
	}
}

func collectPhases(ch chan<- prometheus.Metric, desc *prometheus.Desc, phases []phaseLabels, s *scrape) {
	for _, target := range s.snapshot.Targets() {
		for r := range stats.NumResults {
			for _, p := range phases {
				cell := s.snapshot.Cell(target, stats.Result(r), p.phase)
				if cell == nil {
					continue
				}
				labels := append(append([]string{}, p.labels...), target, stats.Result(r).String())
				ch <- &frozenMetric{desc: desc, cell: cell, labels: labels, created: s.started}
			}
		}
	}
}

// metricsHandler serves /metrics: the families of this package, and those of the Go runtime and the process.
func (d *Daemon) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newExporter(d),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            d.log.Named("metrics").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	})
}
