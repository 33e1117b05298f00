package command

import (
	"math"
	"time"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// remembered is how far back the sparklines go.
const remembered = time.Minute

// phaseKey names one row of latencies.
type phaseKey struct {
	phase  rtdv1.Phase
	result rtdv1.PoolResult
}

// rates are per second. NaN: not known yet.
type rates struct {
	sessions, turns, framesUp, framesDown, bytesUp, bytesDown float64
}

// sample is what one snapshot tells about the stretch since the one before.
type sample struct {
	at     time.Time
	rates  rates
	phases map[phaseKey]time.Duration // the 90th percentile
}

func newSample(s *rtdv1.Stats) sample {
	sample := sample{at: s.GetTime().AsTime(), rates: windowRates(s.GetLastInterval()), phases: map[phaseKey]time.Duration{}}
	for _, p := range s.GetLastInterval().GetPhases() {
		if p.GetSummary().GetCount() > 0 {
			sample.phases[phaseKey{p.GetPhase(), p.GetResult()}] = p.GetSummary().GetP90().AsDuration()
		}
	}
	return sample
}

func windowRates(w *rtdv1.Window) rates {
	seconds := w.GetLength().AsDuration().Seconds()
	if seconds <= 0 {
		seconds = math.NaN()
	}
	return rates{
		sessions: float64(w.GetAccepted()) / seconds,
		turns:    float64(w.GetResponses().GetCompleted()) / seconds,
		framesUp: float64(w.GetUp().GetFrames()) / seconds, framesDown: float64(w.GetDown().GetFrames()) / seconds,
		bytesUp: float64(w.GetUp().GetBytes()) / seconds, bytesDown: float64(w.GetDown().GetBytes()) / seconds,
	}
}

// history is the samples of the last minute, oldest first. What remember returned once
// stays as it was, so that a paused view may keep it.
type history []sample

func (h history) remember(s sample) history {
	if len(h) > 0 && s.at.Before(h[len(h)-1].at) {
		h = nil // the clock of the daemon was set back
	}
	for len(h) > 0 && s.at.Sub(h[0].at) >= remembered {
		h = h[1:]
	}
	return append(h, s)
}

// series spreads what pick finds in the samples over a minute of as many slots as
// there would be samples, and leaves the slots without one NaN: time is to scale,
// also when the daemon was away.
func (h history) series(interval time.Duration, pick func(sample) (float64, bool)) []float64 {
	slots := max(1, int(remembered/max(interval, remembered/maxSpark)))
	values := make([]float64, slots)
	for i := range values {
		values[i] = math.NaN()
	}
	if len(h) == 0 {
		return values
	}
	now := h[len(h)-1].at
	for _, s := range h {
		v, ok := pick(s)
		at := slots - 1 - int(int64(slots)*int64(now.Sub(s.at))/int64(remembered))
		if ok && at >= 0 && !math.IsNaN(v) && !(values[at] >= v) {
			values[at] = v
		}
	}
	return values
}

// sessionRow is a session and what it relays at present, bytes per second. NaN: not
// known yet.
type sessionRow struct {
	*rtdv1.Session
	up, down float64
}

func (r sessionRow) traffic() float64 { return zeroNaN(r.up) + zeroNaN(r.down) }

// sessionRows compares a list of sessions with the one before.
func sessionRows(before []sessionRow, now []*rtdv1.Session) []sessionRow {
	known := make(map[string]*rtdv1.Session, len(before))
	for _, r := range before {
		known[r.GetId()] = r.Session
	}
	rows := make([]sessionRow, 0, len(now))
	for _, s := range now {
		row := sessionRow{s, math.NaN(), math.NaN()}
		old := known[s.GetId()]
		// A session that is new has relayed all it has within its age.
		if seconds := (s.GetAge().AsDuration() - old.GetAge().AsDuration()).Seconds(); seconds > 0 {
			row.up = float64(s.GetUp().GetBytes()-old.GetUp().GetBytes()) / seconds
			row.down = float64(s.GetDown().GetBytes()-old.GetDown().GetBytes()) / seconds
		}
		rows = append(rows, row)
	}
	return rows
}
