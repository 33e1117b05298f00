package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

// tally is a sink that remembers.
type tally struct {
	counts  stats.Counts
	phases  map[stats.Phase][]time.Duration
	answers []answer
}

func (t *tally) record(p stats.Phase, d time.Duration) { t.phases[p] = append(t.phases[p], d) }
func (t *tally) recordAll(p stats.Phase, samples []time.Duration) {
	t.phases[p] = append(t.phases[p], samples...)
}
func (t *tally) count(c stats.Counter, n uint64) { t.counts[c] += n }
func (t *tally) answered(a *turn, status string) { t.answers = append(t.answers, answer{*a, status}) }

// answer is a response that is over, and how it ended.
type answer struct {
	turn
	status string
}

// play feeds a progress one event per line: its time in ms, > for the client's or < for the upstream's, its JSON.
func play(t testing.TB, script string) (*progress, *tally) {
	t.Helper()
	d, _ := dialect.Lookup("openai")
	p, to := new(progress), &tally{phases: map[stats.Phase][]time.Duration{}}
	p.begun(d)
	for line := range strings.Lines(script) {
		var ms int
		var side string
		_, message, _ := strings.Cut(line, "{")
		if n, _ := fmt.Sscan(line, &ms, &side); n < 2 {
			continue
		}
		b := []byte("{" + strings.TrimSpace(message))
		if !json.Valid(b) {
			t.Fatalf("not JSON: %s", b)
		}
		at := time.Duration(ms) * time.Millisecond
		if side == ">" {
			p.client(d.ClientEvent(b, b), d.ResponseID(b, b), at, to)
			p.passed(relay.Up, []relay.Passage{{Readable: at, Written: at}}, to)
			continue
		}
		if ev := d.ServerEvent(b, b); p.server(ev, b, b, at, to) {
			p.ended(d.Detail(ev, b, nil), to)
		}
		p.passed(relay.Down, []relay.Passage{{Readable: at, Written: at}}, to)
	}
	return p, to
}

const ms = time.Millisecond

// What a session says of the time its bytes were held is what the aggregates got of it: of audio, which is worked out in
// batches, of two chunks that were written together, and of what is no audio.
func TestTheTimeHeldOfASessionIsThatOfItsSamples(t *testing.T) {
	d, _ := dialect.Lookup("openai")
	p, to := new(progress), &tally{phases: map[stats.Phase][]time.Duration{}}
	p.passed(relay.Up, []relay.Passage{{Readable: ms, Written: 3 * ms}}, to) // before the first message, which is nobody's yet
	to.phases = map[stats.Phase][]time.Duration{}
	p.begun(d)
	var want measure
	pass := func(ev dialect.Event, messages int, at, held time.Duration) {
		for range messages {
			p.client(ev, nil, at, to)
		}
		p.passed(relay.Up, []relay.Passage{{Readable: at, Written: at + held}}, to)
		want.add(held)
	}
	for n := range 50 {
		at := time.Duration(n+1) * 20 * ms
		pass(dialect.EventAppend, 1, at, time.Duration(n%7)*time.Microsecond)
	}
	pass(dialect.EventAppend, 2, 2000*ms, ms)
	pass(dialect.EventCommit, 1, 2020*ms, 2*ms)

	got := p.copy().added[relay.Up]
	samples := to.phases[stats.PhaseAddedUp]
	var sum time.Duration
	for _, sample := range samples {
		sum += sample
	}
	if got.count != want.count || got.total != want.total || got.max != want.max || len(samples) != int(want.count) || sum != want.total {
		t.Errorf("the session has %+v, the aggregates %d samples of %v in all, want %+v", got, len(samples), sum, want)
	}
}

func TestTurnOfAUserWhoSpeaks(t *testing.T) {
	p, to := play(t, `
		100 < {"type":"input_audio_buffer.speech_started"}
		900 < {"type":"input_audio_buffer.speech_stopped"}
		905 < {"type":"input_audio_buffer.committed"}
		950 < {"type":"response.created","response":{"id":"r1"}}
		1100 < {"type":"response.output_audio_transcript.delta","response_id":"r1","delta":"a"}
		1140 < {"type":"response.output_audio.delta","response_id":"r1","delta":"AAAA"}
		1150 < {"type":"response.output_audio_transcript.delta","response_id":"r1","delta":"b"}
		1160 < {"type":"response.output_audio.delta","response_id":"r1","delta":"AAAA"}
		3900 < {"type":"response.done","response":{"id":"r1","status":"completed","usage":{"total_tokens":30,"input_tokens":10,"output_tokens":20,"input_token_details":{"text_tokens":1,"audio_tokens":9,"image_tokens":0,"cached_tokens":4},"output_token_details":{"text_tokens":5,"audio_tokens":15}}}}`)
	for phase, want := range map[stats.Phase]time.Duration{
		stats.PhaseCreated: 50 * ms, stats.PhaseFirstText: 200 * ms, stats.PhaseFirstAudio: 240 * ms, stats.PhaseTurn: 3000 * ms,
	} {
		if got := to.phases[phase]; len(got) != 1 || got[0] != want {
			t.Errorf("%v = %v, want %v", phase, got, want)
		}
	}
	want := turn{key: p.last.key, start: 900 * ms, created: 950 * ms, text: 1100 * ms, audio: 1140 * ms, done: 3900 * ms}
	if p.last != want || p.last.key == 0 {
		t.Errorf("last turn %+v, want %+v", p.last, want)
	}
	if u := (dialect.Usage{Input: 10, Output: 20, Total: 30, InputText: 1, InputAudio: 9, InputCached: 4, OutputText: 5, OutputAudio: 15}); p.usage != u {
		t.Errorf("usage %+v, want %+v", p.usage, u)
	}
	if c := to.counts; c[stats.Started] != 1 || c[stats.Completed] != 1 || c[stats.TokensInputCached] != 4 || c[stats.TokensOutputAudio] != 15 {
		t.Errorf("counts %v", c)
	}
	if p.active != nil {
		t.Errorf("idle, and still %+v", p.active)
	}
}

func TestTurnStartsWhereTheUserEnded(t *testing.T) {
	f := func(name, script string, want time.Duration) {
		t.Helper()
		p, to := play(t, script+`
			1000 < {"type":"response.created","response":{"id":"r1"}}
			1500 < {"type":"response.done","response":{"id":"r1","status":"completed"}}`)
		if p.whole.last != 1500*ms-want {
			t.Errorf("%s: the turn took %v, want it to begin at %v", name, p.whole.last, want)
		}
		if n := len(to.phases[stats.PhaseCreated]); (n == 1) != (want < 1000*ms) {
			t.Errorf("%s: %d samples of created", name, n)
		}
	}
	f("asked for", `300 > {"type":"response.create"}`, 300*ms)
	f("committed, then asked for", `200 > {"type":"input_audio_buffer.commit"}
		300 > {"type":"response.create"}`, 200*ms)
	f("of its own", ``, 1000*ms)
	f("spoke on", `200 < {"type":"input_audio_buffer.speech_stopped"}
		300 < {"type":"input_audio_buffer.speech_started"}
		700 < {"type":"input_audio_buffer.speech_stopped"}`, 700*ms)
	f("speaks while it begins", `200 < {"type":"input_audio_buffer.speech_stopped"}
		900 < {"type":"input_audio_buffer.speech_started"}`, 1000*ms)
	f("an empty commit is refused", `200 > {"type":"input_audio_buffer.commit"}
		210 < {"type":"error","error":{"code":"input_audio_buffer_commit_empty"}}
		400 > {"type":"response.create"}`, 400*ms)
	f("a bad request is refused", `200 > {"type":"response.create"}
		210 < {"type":"error","error":{"code":"invalid_value"}}
		400 > {"type":"response.create"}`, 400*ms)
}

func TestOverlappingResponsesKeepTheirMarksApart(t *testing.T) {
	p, to := play(t, `
		100 > {"type":"response.create"}
		130 > {"type":"response.create","response":{"conversation":"none"}}
		200 < {"type":"response.created","response":{"id":"r1"}}
		210 < {"type":"response.created","response":{"id":"r2"}}
		250 > {"type":"response.create"}
		251 < {"type":"error","error":{"code":"conversation_already_has_active_response"}}
		300 < {"type":"response.output_text.delta","response_id":"r2","delta":"x"}
		400 < {"type":"response.output_audio.delta","response_id":"r1","delta":"AAAA"}
		410 < {"type":"response.output_text.delta","response_id":"r1","delta":"y"}
		500 < {"type":"response.done","response":{"id":"r2","status":"completed"}}
		600 < {"type":"response.output_audio.delta","response_id":"r1","delta":"AAAA"}
		900 < {"type":"response.done","response":{"id":"r1","status":"completed"}}`)
	for phase, want := range map[stats.Phase][]time.Duration{
		stats.PhaseCreated:    {100 * ms, 80 * ms},
		stats.PhaseFirstText:  {170 * ms, 310 * ms},
		stats.PhaseFirstAudio: {300 * ms},
		stats.PhaseTurn:       {370 * ms, 800 * ms},
	} {
		if got := to.phases[phase]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v = %v, want %v", phase, got, want)
		}
	}
	if r := p.copy().responses; r.started != 2 || r.completed != 2 || r.open != 0 || r.errors != 1 || r.lost != 0 {
		t.Errorf("responses %+v", r)
	}
}

func TestUpstreamsThatSayLess(t *testing.T) {
	p, to := play(t, `
		100 > {"type":"response.create"}
		300 < {"type":"response.text.delta","delta":"x"}
		500 < {"type":"response.done","response":{"status":"completed"}}
		600 < {"type":"response.audio.delta","response_id":"r2","delta":"AAAA"}
		700 < {"type":"response.done","response":{"id":"r2","status":"completed"}}
		710 < {"type":"response.audio.delta","response_id":"r2","delta":"AAAA"}`)
	if got := to.phases[stats.PhaseTurn]; fmt.Sprint(got) != fmt.Sprint([]time.Duration{400 * ms, 100 * ms}) {
		t.Errorf("turns %v", got)
	}
	p.over(true, to)
	if r := p.responses; r.started != 2 || r.completed != 2 || r.lost != 0 {
		t.Errorf("responses %+v: a straggler is no response", r)
	}
}

func TestInterruptionsAreCountedOnce(t *testing.T) {
	begin := `100 > {"type":"response.create"}
		200 < {"type":"response.created","response":{"id":"r1"}}
		`
	f := func(name, script string, want uint32) {
		t.Helper()
		p, to := play(t, begin+script)
		if p.responses.interrupted != want || to.counts[stats.Interrupted] != uint64(want) {
			t.Errorf("%s: %d interruptions, %d in the aggregates, want %d", name, p.responses.interrupted, to.counts[stats.Interrupted], want)
		}
	}
	done := func(status, reason string) string {
		return fmt.Sprintf(`900 < {"type":"response.done","response":{"id":"r1","status":%q,"status_details":{"reason":%q}}}
			`, status, reason)
	}
	f("played to the end", done("completed", ""), 0)
	f("the user spoke", done("cancelled", "turn_detected"), 1)
	f("the client cancelled", `300 > {"type":"response.cancel"}
		`+done("cancelled", "client_cancelled"), 1)
	f("cancelled and truncated", `300 > {"type":"response.cancel","response_id":"r1"}
		301 > {"type":"conversation.item.truncate"}
		`+done("cancelled", "client_cancelled")+`950 > {"type":"conversation.item.truncate"}`, 1)
	f("cut while it was played", done("completed", "")+`950 > {"type":"conversation.item.truncate"}
		960 > {"type":"conversation.item.truncate"}`, 1)
	f("nothing to cancel", done("completed", "")+`950 > {"type":"response.cancel"}`, 0)
	f("another response", `300 > {"type":"response.cancel","response_id":"r9"}
		`+done("completed", ""), 0)
	f("failed", done("failed", "content_filter"), 0)
}

func TestLostTurns(t *testing.T) {
	f := func(name, script string, answers bool, want uint32) {
		t.Helper()
		p, to := play(t, script)
		p.over(answers, to)
		if p.responses.lost != want || to.counts[stats.Lost] != uint64(want) || p.active != nil {
			t.Errorf("%s: %d lost, %d in the aggregates, want %d; active %v", name, p.responses.lost, to.counts[stats.Lost], want, p.active)
		}
	}
	f("nothing happened", ``, true, 0)
	f("asked and not begun", `100 > {"type":"input_audio_buffer.commit"}
		101 > {"type":"response.create"}`, true, 1)
	f("begun and not ended", `100 > {"type":"response.create"}
		200 < {"type":"response.created","response":{"id":"r1"}}
		210 > {"type":"response.create"}`, true, 2)
	f("spoken and not answered", `100 < {"type":"input_audio_buffer.speech_stopped"}`, true, 1)
	f("a session that only transcribes", `100 < {"type":"input_audio_buffer.speech_stopped"}`, false, 0)
}

func TestOpenResponsesAreBounded(t *testing.T) {
	var script strings.Builder
	for i := range 3 * maxOpen {
		fmt.Fprintf(&script, "%d > {\"type\":\"response.create\"}\n", 10+i)
		fmt.Fprintf(&script, "%d > {\"type\":\"response.create\"}\n", 10+i)
		fmt.Fprintf(&script, "%d < {\"type\":\"response.created\",\"response\":{\"id\":\"r%d\"}}\n", 1000+i, i)
	}
	p, to := play(t, script.String())
	if n, m := len(p.active.open), len(p.active.asked); n != maxOpen || m > maxOpen {
		t.Errorf("%d open and %d asked for, want at most %d", n, m, maxOpen)
	}
	if p.responses.lost != 2*maxOpen {
		t.Errorf("%d lost, want those that were given up", p.responses.lost)
	}
	p.over(true, to)
	if next := (&progress{ledger: new(ledger)}); cap(next.activate().open) > spareOpen {
		t.Error("an unused activity keeps the room of a busy one")
	}
}

func TestJitterOfASession(t *testing.T) {
	var script strings.Builder
	for i := range 20 {
		fmt.Fprintf(&script, "%d > {\"type\":\"input_audio_buffer.append\",\"audio\":\"AAAA\"}\n", 1000+20*i)
	}
	fmt.Fprintf(&script, "%d > {\"audio\":\"AAAA\",\"type\":\"input_audio_buffer.append\"}\n", 1400+9)
	p, to := play(t, script.String())
	c := p.copy()
	up := c.jitter[relay.Up]
	if up.gap != 20*ms || up.in.max != 9*ms || up.out.max != 9*ms || up.in.count != 17 || up.in.total != 9*ms {
		t.Errorf("jitter up %+v", up)
	}
	if c.active != nil || c.activeBytes == 0 {
		t.Error("a copy shares what the poller writes, or hides its size")
	}
	p.rest(1409 * ms)
	if p.active == nil {
		t.Error("a speaking client lost its activity")
	}
	p.rest(1409*ms + stats.Pause)
	if p.active != nil || p.jitter[relay.Up] != up {
		t.Errorf("silent: active %v, jitter %+v, want %+v", p.active, p.jitter[relay.Up], up)
	}
	for phase, want := range map[stats.Phase]int{stats.PhaseJitterInUp: 17, stats.PhaseJitterOutUp: 18, stats.PhaseAddedUp: 21} {
		if n := len(to.phases[phase]); n != want {
			t.Errorf("%v: %d samples in the aggregates, want %d", phase, n, want)
		}
	}
}

// An idle session is small, and what was busy once is bounded.
func TestSizeOfASession(t *testing.T) {
	d, _ := dialect.Lookup("openai")
	idle, busy := stateBytes(&progress{}), new(progress)
	busy.begun(d)
	t.Logf("idle %d B, with progress %d B, active %d B", idle, stateBytes(busy), new(activity).bytes())
	if idle > 900 {
		t.Errorf("an idle session is %d B", idle)
	}
	if n := stateBytes(busy) - idle; n > 640 {
		t.Errorf("progress is %d B", n)
	}
	if n := new(activity).bytes(); n > 800 {
		t.Errorf("an activity is %d B", n)
	}
}
