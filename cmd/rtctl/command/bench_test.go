package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/bench"
)

func TestBenchTakesLongFlagsWithOneDash(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		root := newRoot(&app{format: formatTable})
		if got := benchArgs(root, strings.Fields(line)); !reflect.DeepEqual(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %s", line, got, want)
		}
	}
	f("bench connect -host h:1 -insecure -key k -n 5 -c 2 -t 3 -m x", "bench connect --host h:1 --insecure --key k -n 5 -c 2 -t 3 -m x")
	f("bench connect -host=h:1 -rate=5 -o json -ojson -n5", "bench connect --host=h:1 --rate=5 -o json -ojson -n5")
	f("bench connect --host h -h", "bench connect --host h -h")
	f("bench connect -- -host", "bench connect -- -host")
	f("bench connect -nosuch", "bench connect -nosuch")
	f("--endpoint s bench connect -host h", "--endpoint s bench connect --host h")
	f("stats -watch", "stats -watch")
	f("bench", "bench")
	f("", "")
}

func TestBenchUsage(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	golden(t, "bench-usage.txt", &fake{socket: filepath.Join(t.TempDir(), "rtd.sock")})
}

// fixedReport is a run with everything in it that a form has to show.
func fixedReport() *bench.Report {
	fig := func(n uint64, p50 float64) bench.Figures {
		return bench.Figures{Count: n, Min: p50 / 2, P50: p50, P90: p50 * 1.1, P95: p50 * 1.2, P99: p50 * 1.5, P999: p50 * 1.8, Max: p50 * 2, Mean: p50 * 1.05,
			Spread: &bench.Spread{P50: p50 / 100, P95: p50 / 50, P99: p50 / 20, Mean: p50 / 100}}
	}
	phases := func(n uint64, dial, session, audio, total float64) map[string]bench.Figures {
		return map[string]bench.Figures{
			"dial": fig(n, dial), "tcp": fig(n, dial/10), "upgrade": fig(n, dial*0.9), "session": fig(n, session), "ready": fig(n, dial+session),
			"first_audio": fig(n, audio), "total": fig(n, total), "close": fig(n, 0.4),
		}
	}
	hits, none, faster, slower := 98.0, 0.0, -129.5, 2.25
	gateway := phases(980, 0.75, 0.002, 301, 302)
	gateway["ready_hit"], gateway["ready_miss"] = fig(960, 0.7), fig(20, 131)
	return &bench.Report{
		Kind: "connect", Schema: bench.Schema, Commit: "0123456789abcdef", Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Host:   bench.Host{OS: "linux", Kernel: "6.1.0", Arch: "amd64", CPUs: 4, Go: "go1.26"},
		Config: bench.Setup{Calls: 500, Concurrency: 20, Timeout: 20000, Repeat: 2, MaxLate: 25, MinSuccess: 99},
		Legs: []bench.Leg{
			{Name: "direct", URL: "wss://provider.example/v1/realtime", Calls: 1000, OK: 1000, Success: 100, Failures: map[string]uint64{}, Phases: phases(1000, 122, 8.25, 301, 432)},
			{Name: "gateway", URL: "ws://127.0.0.1:4001/v1/realtime", Calls: 1000, OK: 980, Success: 98, Failures: map[string]uint64{"dial: timeout": 3, "dial: status 503 Service Unavailable": 17},
				Pool: map[string]uint64{"hit": 960, "miss": 20}, Hits: &hits, Quick: 99.9, Unclean: 1, Overhead: &faster, Phases: gateway},
			{Name: "gateway-off", URL: "ws://127.0.0.1:4003/v1/realtime", Calls: 1000, OK: 1000, Success: 100, Failures: map[string]uint64{}, Hits: &none, Quick: 100, Overhead: &slower,
				Pool: map[string]uint64{"miss": 1000}, Phases: phases(1000, 132.5, 0.002, 301, 434)},
		},
		Generator: bench.Generator{Seconds: 40, CPUSeconds: 8, CPUShare: 0.05, Late: bench.Figures{Count: 8000, P99: 0.9}, Queued: bench.Figures{Count: 4, Max: 12.5}},
		Invalid:   []string{}, Assertions: []bench.Assertion{},
	}
}

func TestBenchForms(t *testing.T) {
	var held []bench.Assertion
	for _, text := range []string{"session.p50<1", "ready_hit.p50<=0.25*gateway-off.ready.p50", "total.p99<400"} {
		a, err := bench.ParseAssertion(text)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, a)
	}
	report := fixedReport()
	report.Judge(99, held)
	if status := exitStatus(verdict(report)); status != exitFailed {
		t.Errorf("status %d for a run that failed", status)
	}
	report.Invalid = append(report.Invalid, "the generator was late")
	if status := exitStatus(verdict(report)); status != exitInvalid {
		t.Errorf("status %d for a run that is invalid", status)
	}
	for _, form := range benchForms {
		var out bytes.Buffer
		f := connectFlags{form: benchForm(form)}
		if err := f.show(&app{stdout: &out, format: formatTable}, report); err != nil {
			t.Fatal(err)
		}
		compare(t, "bench-"+form+".txt", out.String())
	}
}

func TestBenchPeersForms(t *testing.T) {
	turn := func(f float64) bench.Measured {
		return bench.Measured{IdleBytes: 1500 * f, CPUMicros: 8.25 * f, Frames: 50000, Direct: bench.Latency{P50: 0.1 * f, P99: 0.5 * f}, Added: bench.Latency{P50: 0.052 * f, P99: 0.31 * f}}
	}
	r := &bench.PeersReport{
		Kind: "peers", Schema: bench.Schema, Commit: "0123456789abcdef", Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Host:   bench.Host{OS: "linux", Kernel: "6.1.0", Arch: "amd64", CPUs: 4, Go: "go1.26"},
		Config: bench.PeersSetup{Idle: 1000, Sessions: 50, Period: 20, Duration: 5000, Repeat: 3},
		Peers: []bench.Peer{
			{Name: "rtd", Version: "rtd devel", Turns: []bench.Measured{turn(1), turn(1.1), turn(0.9)}},
			{Name: "haproxy", Version: "HAProxy version 2.6.12", Turns: []bench.Measured{turn(3), turn(3.3), turn(2.8)}},
		},
		Ratios:  []bench.Ratio{{Peer: "haproxy", Idle: bench.Range{Median: 0.33, Low: 0.32, High: 0.34}, CPU: bench.Range{Median: 0.33, Low: 0.32, High: 0.34}, Added: bench.Range{Median: 0.5, Low: 0.4, High: 0.6}}},
		Invalid: []string{"haproxy: the generator was late"},
	}
	var all strings.Builder
	for _, form := range []benchForm{"table", "markdown", "json"} {
		var out bytes.Buffer
		f := peersFlags{form: form}
		if err := f.show(&app{stdout: &out, format: formatTable}, r); err != nil {
			t.Fatal(err)
		}
		all.WriteString(out.String() + "\n")
	}
	compare(t, "bench-peers.txt", all.String())
}

// compare is golden for one text.
func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", path, got)
	}
}

func TestBenchPageNeedsNothingElse(t *testing.T) {
	f := connectFlags{form: "table", report: filepath.Join(t.TempDir(), "report.html")}
	report := fixedReport()
	for i := range report.Legs {
		for _, name := range []string{"ready", "total"} {
			figures := report.Legs[i].Phases[name]
			for q := range 101 {
				figures.Curve = append(figures.Curve, figures.P50*(0.5+float64(q)/100))
			}
			report.Legs[i].Phases[name] = figures
		}
	}
	report.Legs[0].Failures["<script>"] = 1
	report.Judge(99, nil)
	if err := f.show(&app{stdout: &bytes.Buffer{}, format: formatTable}, report); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.report)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, want := range []string{"A call is ready in 0.752 ms through the gateway, in 130.2 ms without it", "prefers-color-scheme: dark", "gateway-off", "&lt;script&gt;", "98.0% of the calls succeeded"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if n := strings.Count(page, "<polyline"); n != 6 {
		t.Errorf("%d curves, want one for each leg in two charts", n)
	}
	for _, not := range []string{"src=", "href=", "url(", "@import", "<script", "NaN", "ZgotmplZ"} {
		if strings.Contains(page, not) {
			t.Errorf("%q in the page", not)
		}
	}
}

func TestBenchJSONReadsBack(t *testing.T) {
	var out bytes.Buffer
	f := connectFlags{form: "json"}
	if err := f.show(&app{stdout: &out, format: formatTable}, fixedReport()); err != nil {
		t.Fatal(err)
	}
	var back bench.Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Table(), fixedReport().Table()) {
		t.Errorf("read back as %v", back.Table())
	}
}
