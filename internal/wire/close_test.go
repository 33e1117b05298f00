package wire

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

func TestCaseF12ClosePayload(t *testing.T) {
	f := func(payload string, code ws.StatusCode, want error) {
		t.Helper()
		got, err := CheckClosePayload(unhex(t, payload))
		if got != code || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: code %d, error %v; want %d, %v", payload, got, err, code, want)
		}
	}
	f("", 1005, nil)
	f("03", 0, ErrClosePayload)
	f("03 e8", 1000, nil)
	f("0f a1 78", 4001, nil)
	f("03 e7", 0, ErrClosePayload)
	f("03 ec", 0, ErrClosePayload)
	f("03 ed", 0, ErrClosePayload)
	f("03 ee", 0, ErrClosePayload)
	f("03 f7", 0, ErrClosePayload)
	f("07 d0", 0, ErrClosePayload)
	f("13 88", 0, ErrClosePayload)
	f("03 e8 c3 28", 0, ErrCloseReason)
	f("03 e8"+strings.Repeat("61", 124), 0, ErrClosePayload)
}

func TestCloseCodeOfErrors(t *testing.T) {
	for err, want := range map[error]ws.StatusCode{
		ErrTooBig: 1009, ErrCloseReason: 1007, ErrClosePayload: 1002, errors.Join(ErrTooBig): 1009, errors.New("other"): 1002,
	} {
		if got := CloseCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestAppendCloseNeverRendersWhatMayNotBeSent(t *testing.T) {
	for code := range ws.StatusCode(5100) {
		b := AppendClose(nil, FromServer, code, "why")
		got, err := CheckClosePayload(b[2:])
		if err != nil {
			t.Fatalf("%d: % x: %v", code, b, err)
		}
		if want := code; ValidCloseCode(code) && got != want || !ValidCloseCode(code) && got != 1005 {
			t.Fatalf("%d: rendered as %d", code, got)
		}
	}
}

func TestAppendCloseCutsTheReasonAtARune(t *testing.T) {
	for n := 115; n < 130; n++ {
		b := AppendClose(nil, FromServer, 1000, strings.Repeat("a", n)+"€€")
		if len(b) > 127 || !utf8.Valid(b[4:]) || len(b) < 2+2+min(n, 120) {
			t.Errorf("%d bytes: rendered % x", n, b)
		}
	}
	if b := AppendClose(nil, FromServer, 1000, "\xc3("); len(b) != 4 {
		t.Errorf("invalid UTF-8 rendered: % x", b)
	}
}
