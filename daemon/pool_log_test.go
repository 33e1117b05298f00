package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rtd-project/rtd/internal/redact"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// poolLines feeds events, each at its offset, and returns "level class more" of each line.
type poolLines struct {
	log   *poolLog
	out   *syncBuffer
	start time.Time
}

func newPoolLines() *poolLines {
	out := &syncBuffer{}
	return &poolLines{newPoolLog(newLogger(out, hclog.Info, "", redact.New())), out, time.Unix(1e9, 0)}
}

func (l *poolLines) fail(name string, after time.Duration, class pool.Class, retry time.Duration) {
	e := pool.Event{Kind: pool.EventDialFailed, Err: &pool.DialError{Class: class, Err: errors.New("cause")}, RetryIn: retry}
	l.log.write(poolEvent{e, name, name, l.start.Add(after)})
}

func (l *poolLines) recover(name string, after time.Duration) {
	l.log.write(poolEvent{pool.Event{Kind: pool.EventRecovered}, name, name, l.start.Add(after)})
}

func (l *poolLines) expect(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(l.out.String()) {
		var f struct {
			Level string  `json:"@level"`
			Pool  string  `json:"pool"`
			Class string  `json:"class"`
			More  float64 `json:"more_failures"`
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSuffix(strings.Join(strings.Fields(fmt.Sprint(f.Level, " ", f.Pool, " ", f.Class, " ", f.More)), " "), " 0"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func TestARoundOfFailedDialsIsOneLine(t *testing.T) {
	l := newPoolLines()
	for n := range 16 {
		l.fail("a", time.Duration(n)*time.Millisecond, pool.ClassRefused, 4*time.Second)
	}
	l.fail("a", 5*time.Second, pool.ClassRefused, 8*time.Second)
	l.expect(t, "warn a refused", "warn a refused 15")
}

func TestWhatWillNotPassByItselfIsLoud(t *testing.T) {
	l := newPoolLines()
	l.fail("a", 0, pool.ClassAuth, time.Minute)
	l.fail("b", 0, pool.ClassQuota, time.Minute)
	l.fail("c", 0, pool.ClassNotFound, time.Minute)
	l.fail("d", 0, pool.ClassRateLimited, time.Minute)
	l.expect(t, "error a auth", "error b quota", "error c not_found", "warn d rate_limited")
}

func TestAnotherClassIsNewsWithinARound(t *testing.T) {
	l := newPoolLines()
	l.fail("a", 0, pool.ClassRefused, 15*time.Second)
	l.fail("a", time.Second, pool.ClassAuth, time.Minute)
	l.fail("a", 2*time.Second, pool.ClassAuth, time.Minute)
	l.expect(t, "warn a refused", "error a auth")
}

func TestARecoveryIsALineAfterAFailure(t *testing.T) {
	l := newPoolLines()
	l.recover("a", 0) // nobody was told that anything was wrong
	l.fail("a", time.Second, pool.ClassTimeout, 0)
	l.fail("a", time.Second, pool.ClassTimeout, 0)
	l.recover("a", 2*time.Second)
	l.recover("a", 3*time.Second)
	l.expect(t, "warn a timeout", "info a 1")
}

// An upstream that fails and recovers all the time gets a few lines a second, whatever it does and however many pools it has.
func TestCaseC1FlappingIsNoFlood(t *testing.T) {
	l := newPoolLines()
	const seconds = 10
	for ms := range seconds * 1000 {
		at, name := time.Duration(ms)*time.Millisecond, string(rune('a'+ms%8))
		l.fail(name, at, pool.Class(ms%pool.NumClasses), 0)
		l.recover(name, at)
	}
	if n := strings.Count(l.out.String(), "\n"); n > 2*(poolLogBurst+seconds) || n < 2*seconds {
		t.Errorf("%d lines in %d s", n, seconds)
	}
}

// Who reports an event never waits for the log, and what found no room is counted.
func TestAFullPoolLogLosesEventsNotTime(t *testing.T) {
	l := newPoolLines()
	report := l.log.of("a", "a")
	for range poolLogQueue + 7 {
		report(pool.Event{Kind: pool.EventDialFailed, Err: &pool.DialError{Class: pool.ClassRefused}, RetryIn: time.Hour})
	}
	stop := make(chan struct{})
	close(stop)
	l.log.run(stop)
	l.expect(t, "warn a refused 7")
}

func TestCaseC1ARefusedKeyIsLoggedOnceAndLoud(t *testing.T) {
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Respond("HTTP/1.1 401 Unauthorized\r\nContent-Length: 14\r\n\r\n" + testKey)
	})
	r := startRig(t, up, 8, func(c *Config) { c.Routes[0].Pool.AuthBackoff = time.Minute })
	r.await("refused dials", func() bool { s := r.pool().Stats(); return s.Dialing == 0 && s.DialsFailed[pool.ClassAuth] > 0 })
	r.stop()
	var lines []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "upstream dial failed") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for _, part := range []string{`"@level":"error"`, `"class":"auth"`, `"pool":"up/mock"`, "401", `"retry_in":"`} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("no %s in %s", part, lines[0])
		}
	}
}
