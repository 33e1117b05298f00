package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Schema is the version of the JSON form of a Report. Keys are added to, never renamed or removed, while it stays.
const Schema = 1

// drawn are the phases whose whole distribution a report keeps.
var drawn = []phase{phaseReady, phaseTotal}

// Report is what a run of Connect found out. Its JSON form holds everything that any other form shows.
type Report struct {
	Kind    string    `json:"kind"` // "connect"
	Schema  int       `json:"schema_version"`
	Commit  string    `json:"commit"` // of the generator; "" for not known
	Started time.Time `json:"started"`
	Host    Host      `json:"host"`
	Config  Setup     `json:"config"`
	Legs    []Leg     `json:"legs"`

	Generator   Generator `json:"generator"`
	Interrupted bool      `json:"interrupted"`
	// Invalid says why the figures are not to be used: the generator was the bottleneck. Empty for a valid run.
	Invalid    []string    `json:"invalid"`
	Assertions []Assertion `json:"assertions"`
	// Failed says what Judge found too bad.
	Failed []string `json:"failed"`
}

// Host is the machine of the generator.
type Host struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// Setup is what a run was told.
type Setup struct {
	Calls       int     `json:"calls"` // of each leg in each repeat
	Concurrency int     `json:"concurrency"`
	Rate        float64 `json:"rate"` // calls/s over all legs; 0 for a closed loop
	Timeout     float64 `json:"timeout_ms"`
	Warmup      int     `json:"warmup"`
	Repeat      int     `json:"repeat"`
	MaxLate     float64 `json:"max_late_ms"`
	MinSuccess  float64 `json:"min_success_percent"`
	// Rig is what stood behind the legs, when the run brought that itself.
	Rig *RigSetup `json:"rig,omitempty"`
}

// Leg is what one endpoint gave.
type Leg struct {
	Name     string             `json:"name"`
	URL      string             `json:"url"` // without its query
	Calls    uint64             `json:"calls"`
	OK       uint64             `json:"ok"`
	Failures map[string]uint64  `json:"failures"` // by cause
	Success  float64            `json:"success_percent"`
	Pool     map[string]uint64  `json:"pool"`                      // successes by what Rtd-Pool said: hit, miss, bypass
	Hits     *float64           `json:"hits_percent"`              // of the successes with that header; null without any
	Quick    float64            `json:"session_under_1ms_percent"` // of the successes
	Unclean  uint64             `json:"unclean_closes"`            // successes whose closing handshake was not completed
	Overhead *float64           `json:"ready_p50_over_direct_ms"`  // null without a direct leg, and of the direct leg
	Phases   map[string]Figures `json:"phases"`                    // over the successes; those that occurred
}

// report puts a Report together. runs holds a tally for each leg of each repeat.
func report(cfg *Config, started time.Time, runs [][]*tally, g Generator, interrupted bool) *Report {
	r := &Report{
		Kind: "connect", Schema: Schema, Started: started.UTC().Truncate(time.Millisecond), Host: thisHost(),
		Config: Setup{
			Calls: cfg.Calls, Concurrency: cfg.Concurrency, Rate: cfg.Rate, Timeout: ms(cfg.Timeout), Warmup: cfg.Warmup, Repeat: cfg.Repeat, MaxLate: ms(cfg.MaxLate),
		},
		Generator: g, Interrupted: interrupted, Invalid: g.saturated(cfg.MaxLate), Assertions: []Assertion{}, Failed: []string{},
	}
	var ours uint64
	for i := range cfg.Legs {
		t := newTally()
		var of []*tally
		for _, run := range runs {
			t.merge(run[i])
			of = append(of, run[i])
		}
		ours += t.ours
		r.Legs = append(r.Legs, leg(&cfg.Legs[i], t, of))
	}
	if ours > 0 {
		r.Invalid = append(r.Invalid, fmt.Sprintf("%d calls failed because this host ran out of descriptors, ports or memory: raise ulimit -n or lower -c", ours))
	}
	if r.Invalid == nil {
		r.Invalid = []string{}
	}
	r.compare()
	return r
}

func leg(target *Target, t *tally, runs []*tally) Leg {
	failed := t.failed()
	l := Leg{
		Name: target.Name, URL: target.shown(), Calls: t.ok + failed, OK: t.ok, Failures: t.failures, Pool: t.pool, Unclean: t.unclean,
		Success: percent(t.ok, t.ok+failed), Quick: percent(t.quick, t.ok), Phases: map[string]Figures{},
	}
	if n := t.pool["hit"] + t.pool["miss"] + t.pool["bypass"]; n > 0 {
		hits := percent(t.pool["hit"], n)
		l.Hits = &hits
	}
	for p := range numPhases {
		if t.took[p].Count() == 0 {
			continue
		}
		f := figures(&t.took[p])
		if len(runs) > 1 {
			var each []Figures
			for _, run := range runs {
				each = append(each, figures(&run.took[p]))
			}
			f.Spread = spread(each)
		}
		for _, d := range drawn {
			if p == d {
				f.Curve = curve(&t.took[p])
			}
		}
		l.Phases[p.String()] = f
	}
	return l
}

// compare holds the legs against the direct one.
func (r *Report) compare() {
	direct := r.leg(LegDirect)
	if direct == nil || direct.OK == 0 {
		return
	}
	base := direct.Phases[phaseReady.String()].P50
	for i := range r.Legs {
		if l := &r.Legs[i]; l != direct && l.OK > 0 {
			over := micros(l.Phases[phaseReady.String()].P50 - base)
			l.Overhead = &over
		}
	}
}

func (r *Report) leg(name string) *Leg {
	for i := range r.Legs {
		if r.Legs[i].Name == name {
			return &r.Legs[i]
		}
	}
	return nil
}

// Judge holds the report against what was demanded and fills Assertions and Failed. minSuccess is in percent, for each leg.
func (r *Report) Judge(minSuccess float64, assertions []Assertion) {
	r.Config.MinSuccess = minSuccess
	var ok, asked uint64
	for i := range r.Legs {
		l := &r.Legs[i]
		ok += l.OK
		asked += l.Calls
		switch {
		case l.OK == 0:
			r.Failed = append(r.Failed, l.Name+": no call succeeded")
		case l.Success < minSuccess:
			r.Failed = append(r.Failed, fmt.Sprintf("%s: %s%% of the calls succeeded, less than %s%%", l.Name, percentage(l.Success), percentage(minSuccess)))
		}
	}
	for _, a := range assertions {
		a.judge(r)
		r.Assertions = append(r.Assertions, a)
		if !a.Held {
			r.Failed = append(r.Failed, "assertion "+a.Text+": "+a.Found)
		}
	}
	if r.Interrupted {
		r.Failed = append(r.Failed, fmt.Sprintf("interrupted after %d of %d calls", asked, uint64(len(r.Legs)*r.Config.Calls*r.Config.Repeat)))
	}
}

func thisHost() Host {
	h := Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil { // elsewhere it stays unknown
		h.Kernel = strings.TrimSpace(string(release))
	}
	return h
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return micros(100 * float64(part) / float64(whole))
}
