package bench

import (
	"strings"
	"testing"
)

// twoLegs is a report as Judge finds it.
func twoLegs() *Report {
	hits := 75.0
	return &Report{Config: Setup{Calls: 10, Repeat: 1}, Legs: []Leg{
		{Name: LegDirect, Calls: 10, OK: 10, Success: 100, Phases: map[string]Figures{"ready": {Count: 10, P50: 130, P99: 140}}},
		{Name: LegGateway, Calls: 10, OK: 8, Success: 80, Hits: &hits, Quick: 70, Unclean: 1, Phases: map[string]Figures{
			"ready": {Count: 8, Min: 0.5, P50: 1, P90: 2, P95: 3, P99: 4, P999: 5, Max: 6, Mean: 1.5}, "session": {Count: 8, P50: 0.25}}},
	}}
}

func TestAssertionsCompareFiguresWithNumbersAndFigures(t *testing.T) {
	f := func(text string, held bool, found string) {
		t.Helper()
		a, err := ParseAssertion(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		if err := a.Check([]string{LegDirect, LegGateway}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		r := twoLegs()
		a.judge(r)
		if a.Held != held || !strings.Contains(a.Found, found) {
			t.Errorf("%s: held %v, %q, want %v and %q", text, a.Held, a.Found, held, found)
		}
	}
	f("session.p50<1", true, "found 0.25")
	f("session.p50 < 0.25", false, "found 0.25")
	f("session.p50<=.25", true, "found 0.25")
	f(" gateway.ready.p99 >= 4 ", true, "found 4")
	f("direct.ready.p50>129.5", true, "found 130")
	f("ready.p50<=0.25*direct.ready.p50", true, "found 1 and 32.5")
	f("ready.p50>direct.ready.p50", false, "found 1 and 130")
	f("hits>=75", true, "found 75")
	f("success>=99.9", false, "found 80")
	f("failures<3", true, "found 2")
	f("calls>=10", true, "found 10")
	f("under_1ms>60", true, "found 70")
	f("unclean_closes<1", false, "found 1")
	f("ready.p999<=5", true, "found 5")
	f("ready.count>7", true, "found 8")
	f("direct.hits>=99", false, "Rtd-Pool")
	f("ready_hit.p50<1", false, "no samples")
}

func TestAssertionsThatMeanNothingAreRefused(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := ParseAssertion(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	f("", "no comparison")
	f("session.p50", "no comparison")
	f("session.p50==1", "no comparison")
	f("sesion.p50<1", `no phase "sesion"`)
	f("session.p42<1", "does not end in a figure")
	f("session<1", "does not end in a figure")
	f("a.b.session.p50<1", "no leg")
	f("session.p50<fast", "does not end in a figure")
	f("session.p50<1.2.3*ready.p50", "no number")
}

func TestAssertionsKnowTheLegs(t *testing.T) {
	f := func(text, want string, legs ...string) {
		t.Helper()
		a, err := ParseAssertion(text)
		if err != nil {
			t.Fatal(err)
		}
		err = a.Check(legs)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s with %q: %v, want %q", text, legs, err, want)
		}
	}
	f("session.p50<1", "", "target")
	f("session.p50<1", "", LegDirect, LegGateway)
	f("session.p50<1", "say which leg", LegDirect, LegGatewayOff)
	f("target.session.p50<1", "no leg", LegDirect, LegGateway)
	f("ready.p50<gateway-off.ready.p50", "no leg", LegGateway)
}

func TestJudge(t *testing.T) {
	f := func(minSuccess float64, change func(*Report), want ...string) {
		t.Helper()
		r := twoLegs()
		change(r)
		r.Judge(minSuccess, nil)
		if strings.Join(r.Failed, "|") != strings.Join(want, "|") {
			t.Errorf("failed for %q, want %q", r.Failed, want)
		}
	}
	f(80, func(*Report) {})
	f(99, func(*Report) {}, "gateway: 80.0% of the calls succeeded, less than 99.0%")
	f(0, func(r *Report) { r.Legs[1].OK = 0 }, "gateway: no call succeeded")
	f(0, func(r *Report) { r.Interrupted = true }, "interrupted after 20 of 20 calls")
}
