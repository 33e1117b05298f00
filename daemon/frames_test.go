package daemon

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/stats"
)

var (
	audio20ms = strings.Repeat("AAAA", 320)
	appendUp  = []byte(`{"type":"input_audio_buffer.append","audio":"` + audio20ms + `"}`)
	deltaDown = []byte(`{"type":"response.output_audio.delta","event_id":"event_1","response_id":"resp_1","item_id":"item_1","output_index":0,"content_index":0,"delta":"` + audio20ms + `"}`)
)

// lone is a session without sockets, in the middle of a response.
func lone() *session {
	d, _ := dialect.Lookup("openai")
	s := &session{
		daemon: &Daemon{epoch: time.Now()}, id: "rts_test", model: "mock",
		route: &route{endpoint: &endpoint{dialect: d}}, totals: stats.NewAggregate(), accepted: time.Now(),
	}
	s.frame(relay.Up, []byte(`{"type":"response.create"}`), time.Second)
	s.frame(relay.Down, []byte(`{"type":"response.created","response":{"id":"resp_1"}}`), time.Second)
	for i := range 20 {
		s.frame(relay.Up, appendUp, time.Second+time.Duration(i)*20*ms)
		s.frame(relay.Down, deltaDown, time.Second+time.Duration(i)*20*ms)
	}
	return s
}

// frame does what the relay does with a message that is in hand.
func (s *session) frame(dir relay.Dir, message []byte, at time.Duration) {
	tail := relay.TailOf(message)
	if capture, _ := s.Head(dir, ws.OpText, message[:min(len(message), relay.HeadMax)], &tail, at); capture {
		s.Message(dir, message, nil, at)
	}
	s.Passed(dir, []relay.Passage{{Readable: at, Written: at + 20*time.Microsecond}})
}

// alike does what the relay does with messages that need not be seen, and returns when the last of them came.
func (s *session) alike(dir relay.Dir, at time.Duration) time.Duration {
	var passages [16]relay.Passage
	for n := range passages {
		at += 20 * ms
		passages[n] = relay.Passage{Readable: at, Written: at + 20*time.Microsecond, Alike: 1}
	}
	s.Passed(dir, passages[:])
	return at
}

func TestFramesDoNotAllocate(t *testing.T) {
	s := lone()
	at := 2 * time.Second
	text := []byte(`{"type":"response.output_audio_transcript.delta","event_id":"event_2","response_id":"resp_1","delta":"x"}`)
	if n := testing.AllocsPerRun(1000, func() {
		at += 20 * ms
		s.frame(relay.Up, appendUp, at)
		s.frame(relay.Down, deltaDown, at)
		s.frame(relay.Down, text, at)
		at = s.alike(relay.Up, at)
	}); n != 0 && !raceEnabled { // a sync.Pool forgets at random for the race detector
		t.Errorf("%v allocations for a frame up, two down and a batch up, want none", n)
	}
	p := s.progress.copy()
	if p.jitter[relay.Up].out.count < 1000 || p.jitter[relay.Down].in.count < 1000 || p.firstText.count != 1 {
		t.Errorf("the frames were not looked at: %+v", p)
	}
}

// BenchmarkFrame is what the statistics of one frame cost, without the relay's own looking.
func BenchmarkFrame(b *testing.B) {
	for _, bench := range []struct {
		name    string
		dir     relay.Dir
		message []byte
	}{{"append", relay.Up, appendUp}, {"delta", relay.Down, deltaDown}} {
		b.Run(bench.name, func(b *testing.B) {
			s := lone()
			at := 2 * time.Second
			b.ReportAllocs()
			for b.Loop() {
				at += 20 * ms
				s.frame(bench.dir, bench.message, at)
			}
		})
	}
	b.Run("16 alike", func(b *testing.B) {
		s := lone()
		at := 2 * time.Second
		b.ReportAllocs()
		for b.Loop() {
			at = s.alike(relay.Down, at)
		}
	})
}

func TestASessionIsSmall(t *testing.T) {
	var s session
	if n := unsafe.Sizeof(s); n > 240 {
		t.Errorf("a session has %d bytes, want the size class of 240", n)
	}
}
