package daemon

import (
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/relay"
	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// simRig is a daemon in front of the scripted upstream, with size warm sessions and no more to come.
func simRig(t testing.TB, size int, cfg sim.Config, configure ...func(*Config)) (*rig, *sim.Server) {
	t.Helper()
	server, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	base, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	configure = append([]func(*Config){func(c *Config) {
		c.Routes = []Route{{
			Models:   []string{"mock"},
			Upstream: Upstream{Upstream: dialect.Upstream{Dialect: "openai", Name: "sim", BaseURL: base, Credential: testKey, Model: "mock"}},
			Pool:     pool.Config{Size: size, MaxDialing: 64},
		}}
	}}, configure...)
	r := startRig(t, nil, size, configure...)
	r.awaitIdle(size)
	r.pool().Pause()
	return r, server
}

// counted is what one party counts.
type counted struct {
	connects, turns, inputTokens, outputTokens int64
	messagesUp, messagesDown                   int64
	payloadUp, payloadDown                     int64 // bytes
	framesUp, framesDown                       int64 // bytes, headers included
}

func (c *counted) up(payload string) {
	c.messagesUp++
	c.payloadUp += int64(len(payload))
	c.framesUp += int64(len(payload) + headerSize(len(payload)) + 4)
}

func (c *counted) down(payload []byte) {
	c.messagesDown++
	c.payloadDown += int64(len(payload))
	c.framesDown += int64(len(payload) + headerSize(len(payload)))
}

// headerSize is that of an unmasked frame.
func headerSize(payload int) int {
	switch {
	case payload < 126:
		return 2
	case payload < 1<<16:
		return 4
	}
	return 10
}

// talk has one conversation of so many turns, by voice and by text, and counts it.
func talk(t testing.TB, addr string, turns int) (c counted) {
	cl := wiretest.Dial(t, addr)
	defer cl.Close()
	cl.SendString(wiretest.HSWith(""))
	cl.Expect101()
	c.connects++
	say := func(payload string) {
		c.up(payload)
		cl.SendText(payload)
	}
	hear := func(until string) {
		for {
			_, payload := cl.ReadMessage()
			c.down(payload)
			var ev struct {
				Type     string
				Response struct {
					Usage struct {
						Input  int64 `json:"input_tokens"`
						Output int64 `json:"output_tokens"`
					}
				}
			}
			if err := json.Unmarshal(payload, &ev); err != nil {
				t.Errorf("not JSON: %.80s", payload)
				return
			}
			c.inputTokens += ev.Response.Usage.Input
			c.outputTokens += ev.Response.Usage.Output
			if ev.Type == until {
				return
			}
		}
	}
	hear("session.created")
	say(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`)
	hear("session.updated")
	audio := `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("AAAA", 1600) + `"}`
	for i := range turns {
		if i%2 == 0 {
			say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello there"}]}}`)
		} else {
			for range 3 {
				say(audio)
			}
			say(`{"type":"input_audio_buffer.commit"}`)
		}
		say(`{"type":"response.create"}`)
		hear("response.done")
		c.turns++
	}
	cl.SendClose(1000, "")
	cl.ExpectClose(1000)
	return c
}

// The upstream, rtd and the clients agree on every connect, turn, token and byte.
func TestThreePartiesCountTheSame(t *testing.T) {
	const clients, turns = 20, 6
	r, server := simRig(t, clients, sim.Config{AudioMS: 400, ChunkMS: 20})
	var mu sync.Mutex
	var wg sync.WaitGroup
	var theirs counted
	for range clients {
		wg.Go(func() {
			c := talk(t, r.addr, turns)
			mu.Lock()
			defer mu.Unlock()
			theirs = add(theirs, c)
		})
	}
	wg.Wait()
	r.await("the end of every session", func() bool { return r.finished.Load() == clients })

	stats := must(r.control().Stats(t.Context()))
	u, totals, relayed := stats.GetSessions().GetUsage(), stats.GetSessions().GetResponseTotals(), stats.GetRelay()
	ours := counted{
		connects: int64(stats.GetSessions().GetAccepted()), turns: int64(totals.GetCompleted()),
		inputTokens: int64(u.GetInput()), outputTokens: int64(u.GetOutput()),
		messagesUp: int64(relayed.GetUp().GetMessages()), messagesDown: int64(relayed.GetDown().GetMessages()),
		payloadUp: theirs.payloadUp, payloadDown: theirs.payloadDown,
		framesUp:   int64(relayed.GetUp().GetBytes()) - clients*(2+4+2), // less the Close that each client sent
		framesDown: int64(relayed.GetDown().GetBytes()) - clients*(2+2),
	}
	s := server.Stats()
	upstream := counted{
		connects: s.Accepted, turns: s.ResponsesCompleted, inputTokens: s.InputTokens, outputTokens: s.OutputTokens,
		messagesUp: s.ClientMessages, messagesDown: s.ServerMessages, payloadUp: s.BytesIn, payloadDown: s.BytesOut,
		framesUp: theirs.framesUp, framesDown: theirs.framesDown,
	}
	if theirs.turns != clients*turns || theirs.outputTokens == 0 || theirs.inputTokens == 0 {
		t.Errorf("the clients had %+v", theirs)
	}
	if ours != theirs {
		t.Errorf("rtd counts   %+v\nclients count %+v", ours, theirs)
	}
	if upstream != theirs {
		t.Errorf("the upstream counts %+v\nclients count       %+v", upstream, theirs)
	}
	if totals.GetStarted() != clients*turns || totals.GetLost() != 0 || stats.GetSessions().GetEnded() != clients || stats.GetSessions().GetResponses() != clients*turns {
		t.Errorf("sessions %v", stats.GetSessions())
	}
	target := stats.GetTargets()[0]
	if len(stats.GetTargets()) != 1 || target.GetTarget() != "sim/mock" || target.GetHits() != clients || target.GetUsage().GetTotal() != u.GetTotal() {
		t.Errorf("targets %v", stats.GetTargets())
	}
	text := r.scrape("")
	for _, want := range []string{`rtd_sessions_accepted_total{result="hit",target="sim/mock"} 20`, `rtd_response_latency_seconds_count{mark="done",result="hit",target="sim/mock"} 120`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in /metrics", want)
		}
	}
}

func add(a, b counted) counted {
	return counted{
		a.connects + b.connects, a.turns + b.turns, a.inputTokens + b.inputTokens, a.outputTokens + b.outputTokens,
		a.messagesUp + b.messagesUp, a.messagesDown + b.messagesDown, a.payloadUp + b.payloadUp, a.payloadDown + b.payloadDown,
		a.framesUp + b.framesUp, a.framesDown + b.framesDown,
	}
}

// Of a talk, few messages are looked at one by one; the figures have every chunk.
func TestEveryChunkOfATalkIsMeasured(t *testing.T) {
	const chunks = 100
	words := `{"type":"response.output_audio_transcript.delta","response_id":"resp_1","delta":"a"}`
	r := startRig(t, wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		c.Accept()
		c.SendText(wiretest.SessionCreated)
		_ = c.Conn.SetDeadline(time.Time{})
		for {
			f, err := c.TryReadFrame()
			if err != nil {
				return
			}
			if strings.Contains(string(f.Payload), "response.create") {
				c.SendText(`{"type":"response.created","response":{"id":"resp_1"}}`)
				continue
			}
			c.SendText(string(deltaDown))
			c.SendText(words)
		}
	}), 0)
	c, id := r.identified()
	c.SendText(`{"type":"response.create"}`)
	c.ReadMessage()
	for range chunks {
		c.SendText(string(appendUp))
		c.ExpectText(string(deltaDown))
		c.ExpectText(words)
	}
	s := must(r.control().Session(t.Context(), id))
	for name, j := range map[string]*rtdv1.Jitter{"up": s.GetJitterUp(), "down": s.GetJitterDown()} {
		// A gap is judged when three are known.
		if in, out := j.GetIn().GetCount(), j.GetOut().GetCount(); in != chunks-4 || out != chunks-3 {
			t.Errorf("jitter %s of %d chunks in and %d out, want %d and %d", name, in, out, chunks-4, chunks-3)
		}
	}
	if a := s.GetResponses().GetFirstAudio().GetCount(); a != 1 {
		t.Errorf("%d first pieces of audio, want 1", a)
	}
	got := map[string]uint64{}
	for _, row := range must(r.control().Stats(t.Context())).GetPhases() {
		got[strings.ToLower(strings.TrimPrefix(row.GetPhase().String(), "PHASE_"))] += row.GetSummary().GetCount()
	}
	for _, dir := range []string{"up", "down"} {
		if in, out, added := got["jitter_in_"+dir], got["jitter_out_"+dir], got["added_"+dir]; in != chunks-4 || out != chunks-3 || added <= chunks {
			t.Errorf("in all, %s: jitter of %d in and %d out, %d passages; want %d, %d and more than %d", dir, in, out, added, chunks-4, chunks-3, chunks)
		}
	}
	if e := r.engine.Stats(); e.Messages[relay.Down] != 2*chunks+2 {
		t.Errorf("%d messages to the client", e.Messages[relay.Down])
	}
}
