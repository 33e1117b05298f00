package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func newSessionShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show SESSION",
		Short: "Show everything about one open session",
		Example: `  rtctl session show rts_st3emzonamfokguynqs5
  rtctl session show rts_st3emzonamfokguynqs5 -o json | jq .responses.first_audio`,
		Args:              arguments("the session"),
		ValidArgsFunction: onlyFirst(a.completeSessions),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.Session, error) {
				return c.Session(ctx, args[0])
			})
			if err != nil {
				return err
			}
			return a.emit(documentSession(s), sessionScreen(s))
		},
	}
}

func sessionScreen(s *rtdv1.Session) *fields {
	f := &fields{}
	f.add("session", "%s, %s", s.GetId(), word(s.GetState().String(), "SESSION_STATE_"))
	f.add("client", "%s", s.GetClientAddress())
	f.add("key", "%s", orNone(s.GetKeyName()))
	if s.GetRequestId() != "" {
		f.add("request", "%s", s.GetRequestId())
	}
	f.add("model", "%s", orNone(s.GetModel()))
	f.add("target", "%s", s.GetTarget())
	if s.GetPreset() != "" {
		f.add("preset", "%s", s.GetPreset())
	}
	f.add("upstream id", "%s", orNone(s.GetUpstreamSessionId()))
	f.add("pool", "%s", takeLine(s))
	f.add("accepted", "%s, %s ago", s.GetAcceptedAt().AsTime().Local().Format(time.DateTime), span(s.GetAge()))
	f.add("quiet for", "%s", span(s.GetQuiet()))
	if s.GetExpiresAt() != nil {
		f.add("expires", "%s", s.GetExpiresAt().AsTime().Local().Format(time.DateTime))
	}
	f.add("set-up", "%s", setupLine(s.GetSetup()))
	f.add("first frame", "%s after the 101", span(s.GetFirstFrame()))
	r := s.GetResponses()
	f.add("responses", "%s started, %s completed, %s cancelled, %s failed, %s incomplete; %s interrupted, %s lost, %s open; %s error events",
		humanCount(r.GetStarted()), humanCount(r.GetCompleted()), humanCount(r.GetCancelled()), humanCount(r.GetFailed()),
		humanCount(r.GetIncomplete()), humanCount(r.GetInterrupted()), humanCount(r.GetLost()), humanCount(r.GetOpen()), humanCount(r.GetErrors()))
	f.add("created", "%s", measureLine(r.GetCreated()))
	f.add("first text", "%s", measureLine(r.GetFirstText()))
	f.add("first audio", "%s", measureLine(r.GetFirstAudio()))
	f.add("turn", "%s", measureLine(r.GetTurn()))
	f.add("last turn", "%s", turnLine(s.GetLastTurn()))
	f.add("up", "%s", flowLine(s.GetUp()))
	f.add("down", "%s", flowLine(s.GetDown()))
	f.add("jitter up", "%s", jitterLine(s.GetJitterUp()))
	f.add("jitter down", "%s", jitterLine(s.GetJitterDown()))
	f.add("held", "%s, and %s of state", humanBytes(float64(s.GetHeldBytes())), humanBytes(float64(s.GetStateBytes())))
	u := s.GetUsage()
	f.add("tokens", "%s in (%s text, %s audio, %s image, %s cached), %s out (%s text, %s audio)",
		humanCount(u.GetInput()), humanCount(u.GetInputText()), humanCount(u.GetInputAudio()), humanCount(u.GetInputImage()), humanCount(u.GetInputCached()),
		humanCount(u.GetOutput()), humanCount(u.GetOutputText()), humanCount(u.GetOutputAudio()))
	if e := s.GetEnd(); e != nil {
		f.add("ended", "by the %s, %d %s%s", word(e.GetBy().String(), "PARTY_"), e.GetCode(), e.GetReason(), e.GetError())
	}
	return f
}

func takeLine(s *rtdv1.Session) string {
	line := word(s.GetResult().String(), "POOL_RESULT_")
	if s.GetBypassReason() != "" {
		line += ": " + s.GetBypassReason()
	}
	if s.GetAgeAtTake() != nil {
		line += ", warm for " + span(s.GetAgeAtTake())
	}
	return line
}

func setupLine(phases []*rtdv1.PhaseTime) string {
	var parts []string
	for _, p := range phases {
		name := strings.ReplaceAll(word(p.GetPhase().String(), "PHASE_"), "_", " ")
		parts = append(parts, name+" "+span(p.GetDuration()))
	}
	return orNone(strings.Join(parts, ", "))
}

func measureLine(m *rtdv1.Measure) string {
	if m.GetCount() == 0 {
		return none
	}
	mean := m.GetTotal().AsDuration() / time.Duration(m.GetCount())
	return fmt.Sprintf("%s last, %s mean, %s max, of %s", span(m.GetLast()), humanDuration(mean), span(m.GetMax()), humanCount(m.GetCount()))
}

// turnLine tells the marks of a turn as the time since its start.
func turnLine(t *rtdv1.TurnMarks) string {
	if t == nil {
		return none
	}
	line := fmt.Sprintf("at %s", span(t.GetStart()))
	for _, mark := range []struct {
		name string
		at   *durationpb.Duration
	}{{"created", t.GetCreated()}, {"first text", t.GetFirstText()}, {"first audio", t.GetFirstAudio()}, {"done", t.GetDone()}} {
		if mark.at != nil {
			line += fmt.Sprintf(", %s +%s", mark.name, humanDuration(mark.at.AsDuration()-t.GetStart().AsDuration()))
		}
	}
	if t.GetInterrupted() {
		line += ", interrupted"
	}
	return line
}

// jitterLine compares how chunks came with how they went.
func jitterLine(j *rtdv1.Jitter) string {
	if j.GetGap() == nil {
		return none
	}
	mean := func(m *rtdv1.Measure) string {
		if m.GetCount() == 0 {
			return none
		}
		return humanDuration(m.GetTotal().AsDuration() / time.Duration(m.GetCount()))
	}
	return fmt.Sprintf("chunks every %s; in %s mean, %s max; out %s mean, %s max", span(j.GetGap()),
		mean(j.GetIn()), span(j.GetIn().GetMax()), mean(j.GetOut()), span(j.GetOut().GetMax()))
}

func flowLine(f *rtdv1.Flow) string {
	return fmt.Sprintf("%s frames, %s messages, %s; %s pings answered; %s added at most",
		humanCount(f.GetFrames()), humanCount(f.GetMessages()), humanBytes(float64(f.GetBytes())), humanCount(f.GetPingsAnswered()), span(f.GetAddedMax()))
}
