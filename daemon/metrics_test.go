package daemon

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/rtd-project/rtd/internal/stats"
	"github.com/rtd-project/rtd/internal/wiretest"
)

var update = flag.Bool("update", false, "write the generated documents instead of comparing with them")

// gather collects the families of this package.
func (r *rig) gather() map[string]*dto.MetricFamily {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newExporter(r.Daemon))
	list, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range list {
		byName[f.GetName()] = f
	}
	return byName
}

// busy gives every family something to show.
func (r *rig) busy() {
	for p := range stats.NumPhases {
		r.stats.Of("up/mock").RecordOf("rts_x", time.Now(), stats.Hit, stats.Phase(p), 3*time.Millisecond)
	}
	r.refusals.add("model_not_found")
	for n := range 20 {
		r.memory.sample(50 * n)
	}
}

func TestMetricsPassTheLinter(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	r.busy()
	var list []*dto.MetricFamily
	families := r.gather()
	for _, f := range families {
		list = append(list, f)
	}
	problems, err := promlint.NewWithMetricFamilies(list).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	empty := map[string]bool{"rtd_pool_dials_failed_total": true, "rtd_pool_evicted_total": true, "rtd_pool_dials_skipped_total": true, "rtd_memory_cgroup_limit_bytes": true}
	for i := range metricFamilies {
		name := metricFamilies[i].name
		if families[name] == nil && !empty[name] {
			t.Errorf("%s shows nothing", name)
		}
	}
}

func TestMetricsSayWhatTheControlSocketSays(t *testing.T) {
	r := startRig(t, wiretest.NewUpstream(t, func(up *wiretest.UpstreamConn) {
		up.Accept()
		up.SendText(wiretest.SessionCreated)
		up.ReadMessage()
		up.SendText(`{"type":"response.created","response":{"id":"r1"}}`)
		up.SendText(`{"type":"response.done","response":{"id":"r1","status":"completed","usage":{"input_tokens":7,"output_tokens":5,
			"input_token_details":{"text_tokens":7},"output_token_details":{"text_tokens":5}}}}`)
		up.Echo()
	}), 0)
	c := r.session()
	c.SendText(`{"type":"response.create"}`)
	c.ReadMessage()
	c.ReadMessage()
	r.await("the response", func() bool { return r.responses.Load() == 1 })
	text := r.scrape("")
	for _, want := range []string{
		`rtd_sessions_accepted_total{result="miss",target="up/mock"} 1`,
		`rtd_responses_ended_total{result="miss",status="completed",target="up/mock"} 1`,
		`rtd_tokens_total{direction="input",modality="text",result="miss",target="up/mock"} 7`,
		`rtd_tokens_total{direction="output",modality="text",result="miss",target="up/mock"} 5`,
		`rtd_response_latency_seconds_count{mark="done",result="miss",target="up/mock"} 1`,
		`rtd_setup_duration_seconds_bucket{phase="ready",result="miss",target="up/mock",le="+Inf"} 1`,
		`rtd_relay_messages_total{direction="up"} 1`,
		`rtd_sessions_open 1`,
		`rtd_ready 1`,
		`rtd_pool_takes_total{pool="up/mock",result="miss"} 1`,
		`go_goroutines `, `process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	open := r.scrape("application/openmetrics-text; version=1.0.0")
	id := regexp.MustCompile(`rtd_setup_duration_seconds_bucket\{phase="ready".*# \{session_id="(rts_\w+)"\}`).FindStringSubmatch(open)
	if id == nil || r.sessions.get(id[1]) == nil {
		t.Errorf("no exemplar names the session: %q", id)
	}
	if s := r.scrape("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"); !strings.Contains(s, "rtd_relay_added_seconds") {
		t.Error("no answer in protobuf, which native histograms need")
	}
	for _, secret := range []string{testKey, "sk-test"} {
		if strings.Contains(text+open, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
}

// scrape reads /metrics in the wanted format.
func (r *rig) scrape(accept string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.AdminAddr().String()+"/metrics", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return string(b)
}

// Both forms of a histogram hold every sample, each in the right place.
func TestHistogramsInBothForms(t *testing.T) {
	var set stats.Set
	// None is within the histogram's error of a bound.
	samples := []time.Duration{0, 1, 40 * time.Microsecond, 900 * time.Microsecond, 1010 * time.Microsecond, 1020 * time.Microsecond, 2 * time.Millisecond, 950 * time.Millisecond, time.Hour}
	for _, d := range samples {
		set.Of("a").Record(stats.Hit, stats.PhaseReady, d)
	}
	desc := prometheus.NewDesc("x_seconds", "x", []string{"target"}, nil)
	m := &frozenMetric{desc: desc, labels: []string{"a"}, cell: set.Snapshot().Cell("a", stats.Hit, stats.PhaseReady), created: time.Now()}
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	h := out.GetHistogram()
	if h.GetSampleCount() != uint64(len(samples)) || math.Abs(h.GetSampleSum()-3600.95497) > 1e-3 {
		t.Errorf("%d samples, sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	for _, b := range h.GetBucket() {
		var want uint64
		for _, d := range samples {
			if d.Seconds() <= b.GetUpperBound() {
				want++
			}
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d samples up to %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if h.GetZeroCount() != 2 {
		t.Errorf("%d in the zero bucket, want 2", h.GetZeroCount())
	}
	native := map[int32]int64{}
	var index int32
	var count int64
	next := 0
	for i, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		if i > 0 && span.GetOffset() == 0 {
			t.Error("two spans that touch")
		}
		for range span.GetLength() {
			count += h.GetPositiveDelta()[next]
			native[index] = count
			index++
			next++
		}
	}
	if next != len(h.GetPositiveDelta()) {
		t.Errorf("%d deltas for %d buckets", len(h.GetPositiveDelta()), next)
	}
	var total int64
	for at, n := range native {
		total += n
		high := math.Exp2(float64(at) / 8)
		var want int64
		for _, d := range samples[2:] {
			if s := d.Seconds(); s > high/math.Exp2(1.0/8) && s <= high {
				want++
			}
		}
		if n != want {
			t.Errorf("native bucket up to %v s has %d samples, want %d", high, n, want)
		}
	}
	if total != 7 {
		t.Errorf("%d samples in native buckets, want 7", total)
	}
}

const metricsDocument = "../docs/metrics.md"

func TestMetricsDocumentIsCurrent(t *testing.T) {
	want := documentMetrics()
	if *update {
		if err := os.WriteFile(metricsDocument, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsDocument)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/metrics.md is stale: go test ./daemon -run TestMetricsDocument -update writes it")
	}
}

func documentMetrics() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Written by go test ./daemon -run TestMetricsDocument -update; do not edit. -->

` + "`GET /metrics`" + ` on the admin address, in the text, OpenMetrics or protobuf format, whichever is asked for. Every histogram comes in both forms:
classic buckets, and a native histogram (schema 3, buckets 9% wide) where the scraper takes protobuf. In OpenMetrics and protobuf, buckets of the
set-up and of responses carry an exemplar with the id of a session (` + "`session_id`" + `), which ` + "`rtctl session show`" + ` takes while the session is open.

The values of every label are bounded. ` + "`target` and `pool`" + ` are names from the configuration, ` + "`result`" + ` is how a session got its upstream: hit, miss or
bypass. Beyond ` + strconv.Itoa(stats.MaxTargets) + ` targets, further ones are counted as ` + "`" + stats.OtherTarget + "`" + `. The figures are the same that ` + "`rtctl stats`" + ` shows; those of the Go runtime (` + "`go_…`" + `)
and the process (` + "`process_…`" + `) are client_golang's. The classes and reasons of a pool are explained [here](rtctl.md#why-a-pool-waits).

| metric | type | labels | |
|---|---|---|---|
`)
	for i := range metricFamilies {
		m := &metricFamilies[i]
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	b.WriteString(`
Memory is told in parts that do not sum up, since they are looked at from different sides: the resident set holds what of the heap, the stacks and the
runtime was ever touched, and the program's own pages. What the kernel holds for sockets is in neither, but is charged to the cgroup, together with
the page cache and with other processes of the same cgroup.

## Questions and answers

Share of pool hits:

` + "```" + `promql
sum(rate(rtd_pool_takes_total{result="hit"}[5m])) / sum(rate(rtd_pool_takes_total[5m]))
` + "```" + `

What rtd itself adds, 99th percentile, per direction:

` + "```" + `promql
histogram_quantile(0.99, sum by (direction, le) (rate(rtd_relay_added_seconds_bucket[5m])))
` + "```" + `

First audio, 95th percentile by target, from native histograms:

` + "```" + `promql
histogram_quantile(0.95, sum by (target) (rate(rtd_response_latency_seconds{mark="first_audio"}[5m])))
` + "```" + `
`)
	return b.String()
}
