package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

func TestDiagnosticsComeInPieces(t *testing.T) {
	const late = "opaque-secret-that-is-known-later"
	r := startRig(t, wiretest.NewUpstream(t, wiretest.Ready), 1)
	r.awaitIdle(1)
	for i := range 4000 {
		r.Daemon.log.Info("filler", "n", i, "text", strings.Repeat("x", 50))
	}
	r.Daemon.log.Info("a line", "credential", late)
	r.redact.Add(late)

	var names []string
	parts := map[string]string{}
	for piece, err := range r.control().Diagnostics(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(piece.GetData()); n == 0 || n > diagnosticPiece {
			t.Errorf("a piece of %s has %d bytes", piece.GetName(), n)
		}
		if !slices.Contains(names, piece.GetName()) {
			names = append(names, piece.GetName())
		} else if names[len(names)-1] != piece.GetName() {
			t.Errorf("%s goes on behind %v", piece.GetName(), names)
		}
		parts[piece.GetName()] += string(piece.GetData())
	}
	if want := "[goroutines.txt heap.pb.gz log.txt]"; fmt.Sprint(names) != want {
		t.Errorf("%v, want %s", names, want)
	}
	text := parts["log.txt"]
	if len(text) < logTailSize*3/4 || len(text) > logTailSize+100 || !strings.HasPrefix(text, `{"@level"`) {
		t.Errorf("%d bytes of log: %.100s", len(text), text)
	}
	if strings.Contains(text, late) || !strings.Contains(text, `"@message":"a line"`) || !strings.Contains(text, "[redacted]") {
		t.Errorf("the log ends with %s", text[len(text)-300:])
	}
	if !strings.Contains(parts["goroutines.txt"], "goroutine profile:") || !strings.HasPrefix(parts["heap.pb.gz"], "\x1f\x8b") {
		t.Error("the profiles are not what their names say")
	}
}
