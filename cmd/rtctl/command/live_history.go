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
	length time.Duration // of the stretch
	rates  rates
	phases map[phaseKey]time.Duration // the 90th percentile
}

func newSample(s *rtdv1.Stats) sample {
	sample := sample{at: s.GetTime().AsTime(), length: s.GetLastInterval().GetLength().AsDuration(), rates: windowRates(s.GetLastInterval()), phases: map[phaseKey]time.Duration{}}
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

// series spreads what pick finds over a minute of width columns: the highest value of
// each, NaN where there is none. Time is to scale, also when the daemon was away, and
// columns begin at fixed times, so that a picture moves on without changing its shape.
func (h history) series(width int, pick func(sample) (float64, bool)) []float64 {
	values := make([]float64, width)
	for i := range values {
		values[i] = math.NaN()
	}
	if len(h) == 0 || width == 0 {
		return values
	}
	column := func(at time.Time) int64 { return at.UnixNano() / (int64(remembered) / int64(width)) }
	now := column(h[len(h)-1].at)
	for _, s := range h {
		v, ok := pick(s)
		if !ok || math.IsNaN(v) {
			continue
		}
		last := column(s.at)
		first := max(min(last, column(s.at.Add(-s.length))+1), now-int64(width)+1) // behind the sample before
		for i := first; i <= last; i++ {
			at := int64(width) - 1 - (now - i)
			values[at] = max(v, zeroNaN(values[at]))
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
		old, met := known[s.GetId()]
		seconds := (s.GetAge().AsDuration() - old.GetAge().AsDuration()).Seconds()
		if !met {
			seconds = max(seconds, 1) // it has relayed all it has in its life, which may have hardly begun
		}
		if seconds > 0 {
			row.up = float64(s.GetUp().GetBytes()-old.GetUp().GetBytes()) / seconds
			row.down = float64(s.GetDown().GetBytes()-old.GetDown().GetBytes()) / seconds
		}
		rows = append(rows, row)
	}
	return rows
}
