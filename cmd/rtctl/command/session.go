package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newSession(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "session",
		Short: "Look at and end the sessions of clients",
		Example: `  rtctl session list
  rtctl session close rts_st3emzonamfokguynqs5`,
	},
		newSessionList(a),
		newSessionShow(a),
		newSessionClose(a),
		newSessionWatch(a),
	)
}

type sessionDocument struct {
	ID                string             `json:"id"`
	State             string             `json:"state"`
	Target            string             `json:"target"`
	PoolKey           string             `json:"pool_key"`
	Result            string             `json:"result"`
	BypassReason      string             `json:"bypass_reason"`
	ClientAddress     string             `json:"client_address"`
	UpstreamSessionID string             `json:"upstream_session_id"`
	AcceptedAt        *time.Time         `json:"accepted_at"`
	Age               *float64           `json:"age_ms"`
	Quiet             *float64           `json:"quiet_ms"`
	AgeAtTake         *float64           `json:"age_at_take_ms"`
	ExpiresAt         *time.Time         `json:"expires_at"`
	Setup             map[string]float64 `json:"setup_ms"`
	Responses         responsesDocument  `json:"responses"`
	Up                flowDocument       `json:"up"`
	Down              flowDocument       `json:"down"`
	Held              uint64             `json:"held_bytes"`
	Usage             usageDocument      `json:"usage"`
	End               *endDocument       `json:"end"`
	KeyName           string             `json:"key_name"`
	RequestID         string             `json:"request_id"`
	FirstFrame        *float64           `json:"first_frame_ms"`
	LastTurn          *turnDocument      `json:"last_turn"`
	JitterUp          jitterDocument     `json:"jitter_up"`
	JitterDown        jitterDocument     `json:"jitter_down"`
	StateBytes        uint64             `json:"state_bytes"`
	Model             string             `json:"model"`
	Preset            string             `json:"preset"`
}

type responsesDocument struct {
	Started     uint64          `json:"started"`
	Completed   uint64          `json:"completed"`
	Cancelled   uint64          `json:"cancelled"`
	Failed      uint64          `json:"failed"`
	Incomplete  uint64          `json:"incomplete"`
	Interrupted uint64          `json:"interrupted"`
	Errors      uint64          `json:"errors"`
	FirstText   measureDocument `json:"first_text"`
	FirstAudio  measureDocument `json:"first_audio"`
	Turn        measureDocument `json:"turn"`
	Created     measureDocument `json:"created"`
	Lost        uint64          `json:"lost"`
	Open        uint64          `json:"open"`
}

type measureDocument struct {
	Count uint64   `json:"count"`
	Last  *float64 `json:"last_ms"`
	Max   *float64 `json:"max_ms"`
	Total *float64 `json:"total_ms"`
}

type usageDocument struct {
	Input       uint64 `json:"input"`
	Output      uint64 `json:"output"`
	Total       uint64 `json:"total"`
	InputText   uint64 `json:"input_text"`
	InputAudio  uint64 `json:"input_audio"`
	InputImage  uint64 `json:"input_image"`
	InputCached uint64 `json:"input_cached"`
	OutputText  uint64 `json:"output_text"`
	OutputAudio uint64 `json:"output_audio"`
}

type endDocument struct {
	By     string `json:"by"`
	Code   uint32 `json:"code"`
	Reason string `json:"reason"`
	Error  string `json:"error"`
}

func documentSession(s *rtdv1.Session) sessionDocument {
	r := s.GetResponses()
	d := sessionDocument{
		ID: s.GetId(), State: word(s.GetState().String(), "SESSION_STATE_"), Target: s.GetTarget(), PoolKey: s.GetPoolKey(),
		Result: word(s.GetResult().String(), "POOL_RESULT_"), BypassReason: s.GetBypassReason(),
		ClientAddress: s.GetClientAddress(), UpstreamSessionID: s.GetUpstreamSessionId(),
		AcceptedAt: instant(s.GetAcceptedAt()), Age: ms(s.GetAge()), Quiet: ms(s.GetQuiet()), AgeAtTake: ms(s.GetAgeAtTake()),
		ExpiresAt: instant(s.GetExpiresAt()), Setup: map[string]float64{},
		Responses: responsesDocument{
			Started: r.GetStarted(), Completed: r.GetCompleted(), Cancelled: r.GetCancelled(), Failed: r.GetFailed(),
			Incomplete: r.GetIncomplete(), Interrupted: r.GetInterrupted(), Errors: r.GetErrors(),
			FirstText: documentMeasure(r.GetFirstText()), FirstAudio: documentMeasure(r.GetFirstAudio()), Turn: documentMeasure(r.GetTurn()),
			Created: documentMeasure(r.GetCreated()), Lost: r.GetLost(), Open: r.GetOpen(),
		},
		Up: documentFlow(s.GetUp()), Down: documentFlow(s.GetDown()), Held: s.GetHeldBytes(),
		KeyName: s.GetKeyName(), RequestID: s.GetRequestId(),
		Usage:      documentUsage(s.GetUsage()),
		FirstFrame: ms(s.GetFirstFrame()), LastTurn: documentTurn(s.GetLastTurn()),
		JitterUp: documentJitter(s.GetJitterUp()), JitterDown: documentJitter(s.GetJitterDown()), StateBytes: s.GetStateBytes(),
		Model: s.GetModel(), Preset: s.GetPreset(),
	}
	for _, p := range s.GetSetup() {
		d.Setup[word(p.GetPhase().String(), "PHASE_")] = *ms(p.GetDuration())
	}
	if e := s.GetEnd(); e != nil {
		d.End = &endDocument{word(e.GetBy().String(), "PARTY_"), e.GetCode(), e.GetReason(), e.GetError()}
	}
	return d
}

func documentUsage(u *rtdv1.Usage) usageDocument {
	return usageDocument{
		Input: u.GetInput(), Output: u.GetOutput(), Total: u.GetTotal(),
		InputText: u.GetInputText(), InputAudio: u.GetInputAudio(), InputImage: u.GetInputImage(), InputCached: u.GetInputCached(),
		OutputText: u.GetOutputText(), OutputAudio: u.GetOutputAudio(),
	}
}

func documentMeasure(m *rtdv1.Measure) measureDocument {
	return measureDocument{m.GetCount(), ms(m.GetLast()), ms(m.GetMax()), ms(m.GetTotal())}
}

// sessions collects what is open in a pool, or in all.
func (a *app) sessions(ctx context.Context, pool string) ([]*rtdv1.Session, error) {
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return bounded(ctx, func(ctx context.Context) ([]*rtdv1.Session, error) {
		return allSessions(ctx, c, pool, rtdv1.SessionView_SESSION_VIEW_FULL)
	})
}

func allSessions(ctx context.Context, c *client.Client, pool string, view rtdv1.SessionView) ([]*rtdv1.Session, error) {
	var all []*rtdv1.Session
	for s, err := range c.Sessions(ctx, pool, view) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
