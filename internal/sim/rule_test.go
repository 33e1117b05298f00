package sim_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/rtd-project/rtd/internal/sim"
)

func TestParseRuleErrorsNameThePart(t *testing.T) {
	f := func(rule string, want ...string) {
		t.Helper()
		_, err := sim.ParseRule(rule)
		if !errors.Is(err, sim.ErrRule) {
			t.Errorf("%q: error %v", rule, err)
			return
		}
		for _, w := range append(want, rule) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: error %q lacks %q", rule, err, w)
			}
		}
	}
	f("", `unknown part ""`)
	f("rate=0.1", "no action")
	f("status=429,stauts=1", `unknown part "stauts"`)
	f("status=42", `status "42"`, "200 to 599")
	f("status=x", `status "x"`)
	f("status", `"status" needs a value`)
	f("reset=1", `"reset" takes no value`)
	f("reset,fin", `"fin" is a second action`)
	f("status=500,status=501", `"status" is given twice`)
	f("close=1005", `close code "1005"`)
	f("close=999", `close code "999"`)
	f("close=70000:x", `close code "70000"`)
	f("close=3000:"+strings.Repeat("x", 124), "124 bytes")
	f("reset,after=5", `after "5"`)
	f("reset,after=-1s", `after "-1s"`)
	f("status=500,after=1s", `"after"`)
	f("status=500,on=response.create", `"on"`)
	f("fin,on", `"on" needs a value`)
	f("error", `"error" needs a value`)
	f("fin,on=response.create,after=1s", "two moments")
	f("reset,retry-after=7", `"retry-after" needs "status"`)
	f("reset,first=0", `first "0"`)
	f("reset,rate=0", `rate "0"`)
	f("reset,rate=1.5", `rate "1.5"`)
	f("reset,rate=NaN", `rate "NaN"`)
}

func rules(t testing.TB, texts ...string) (out []sim.Rule) {
	t.Helper()
	for _, s := range texts {
		r, err := sim.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// dials makes n sessions one after the other and tells which of them failed.
func dials(t *testing.T, s *sim.Server, n int) string {
	t.Helper()
	var out strings.Builder
	for range n {
		p, err := tryConnect(t, s, "?model=m", nil)
		if err != nil {
			out.WriteByte('x')
			continue
		}
		p.expect("session.created")
		_ = p.conn.Close()
		out.WriteByte('.')
	}
	return out.String()
}

func TestRulesChooseTheirDials(t *testing.T) {
	f := func(want string, texts ...string) {
		t.Helper()
		s := start(t, sim.Config{Fail: rules(t, texts...)})
		if got := dials(t, s, len(want)); got != want {
			t.Errorf("%q: %s, want %s", texts, got, want)
		}
		if st := s.Stats(); int(st.Failed) != strings.Count(want, "x") || int(st.Dials) != len(want) {
			t.Errorf("%q: stats %+v", texts, st)
		}
	}
	f("xxx", "status=500")
	f("xx...", "status=500,first=2")
	f("...x...x", "status=500,rate=0.25")
	f("...x....", "status=500,rate=0.25,first=1")
	f("xx.", "status=500,first=1", "status=503,first=1")
}

func TestStatusRule(t *testing.T) {
	s := start(t, sim.Config{Fail: rules(t, "status=429,retry-after=7")})
	d := dialer(s)
	var retryAfter string
	d.OnStatusError = func(_ int, _ []byte, resp io.Reader) {
		head, _ := io.ReadAll(resp)
		for line := range strings.SplitSeq(string(head), "\r\n") {
			if v, ok := strings.CutPrefix(line, "Retry-After: "); ok {
				retryAfter = v
			}
		}
	}
	_, _, _, err := d.Dial(t.Context(), s.URL()+"?model=m")
	var status ws.StatusError
	if !errors.As(err, &status) || status != 429 || retryAfter != "7" {
		t.Errorf("error %v, Retry-After %q", err, retryAfter)
	}
}

func TestRulesBeforeThe101(t *testing.T) {
	f := func(rule string, tls bool, ended func(error) bool) {
		t.Helper()
		s := start(t, sim.Config{TLS: tls, Fail: rules(t, rule)})
		_, err := tryConnect(t, s, "?model=m", nil)
		if err == nil || !ended(err) {
			t.Errorf("%s: %v", rule, err)
		}
		eventually(t, "the handshake is over", func() bool { return s.Stats().Handshaking == 0 })
	}
	isReset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	isEOF := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
	f("reset", false, isReset)
	f("reset", true, isReset)
	f("fin", false, isEOF)
	f("fin", true, isEOF)
}

func TestHangBeforeThe101(t *testing.T) {
	s := start(t, sim.Config{Fail: rules(t, "hang")})
	d := ws.Dialer{Timeout: 50 * time.Millisecond}
	_, _, _, err := d.Dial(t.Context(), s.URL()+"?model=m")
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v, want a timeout", err)
	}
	eventually(t, "the server has noticed that the peer left", func() bool { return s.Stats().Handshaking == 0 })
	// The second hangs until the server closes.
	go func() { _, _ = tryConnect(t, s, "?model=m", nil) }()
	eventually(t, "the second hangs", func() bool { return s.Stats().Handshaking == 1 })
}

func TestRulesAfterThe101(t *testing.T) {
	f := func(rule string, tls bool, check func(p *peer)) {
		t.Helper()
		s := start(t, sim.Config{TLS: tls, Fail: rules(t, rule)})
		p := connect(t, s)
		if strings.Contains(rule, "after") {
			p.expect("session.created")
		}
		check(p)
		_ = p.conn.Close()
		eventually(t, "the session has ended", func() bool { return s.Stats().Open == 0 })
	}
	closed := func(p *peer) {
		if f, err := p.read(); err != nil || f.Header.OpCode != ws.OpClose || string(f.Payload) != "\x0b\xb8invalid_request_error.invalid_api_key" {
			t.Errorf("got %x %q, error %v, want Close 3000", f.Header.OpCode, f.Payload, err)
		}
		p.frame(ws.NewCloseFrame(nil))
		p.eof()
	}
	f("close=3000:invalid_request_error.invalid_api_key", false, closed)
	f("close=3000:invalid_request_error.invalid_api_key,after=20ms", true, closed)
	f("fin,after=20ms", false, func(p *peer) { p.eof() })
	reset := func(p *peer) {
		if _, err := p.read(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error %v, want a reset", err)
		}
	}
	f("reset,after=20ms", false, reset)
	f("reset,after=20ms", true, reset)
	f("error=insufficient_quota,after=1ms", false, func(p *peer) {
		if e := p.expect("error"); e.str("error.code") != "insufficient_quota" {
			t.Errorf("error %s", e.str("error.code"))
		}
	})
	f("error=model_load_error", false, func(p *peer) {
		p.expect("error")
		p.expect("session.created")
	})
	f("hang,after=200ms", false, func(p *peer) {
		silent := func() bool {
			_ = p.conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
			_, err := p.read()
			return err != nil && strings.Contains(err.Error(), "timeout")
		}
		eventually(t, "a ping is not answered", func() bool { p.frame(ws.NewPingFrame(nil)); return silent() })
		p.send(respond)
		p.frame(ws.NewCloseFrame(nil))
		if !silent() {
			t.Error("it speaks again")
		}
	})
}

func TestRulesOnAnEvent(t *testing.T) {
	const commit = `{"type":"input_audio_buffer.commit"}`
	f := func(rule, event string, check func(p *peer)) {
		t.Helper()
		s := start(t, sim.Config{Fail: rules(t, rule+",first=1")})
		p := connect(t, s)
		p.expect("session.created")
		p.send(commit) // another event springs nothing
		p.expect("error")
		p.send(event)
		check(p)
		_ = p.conn.Close()
		eventually(t, "the session has ended", func() bool { return s.Stats().Open == 0 })
		next := connect(t, s)
		next.expect("session.created")
		next.send(event)
		next.send(respond)
		next.until("response.done")
		if st := s.Stats(); st.Failed != 1 {
			t.Errorf("%s: %d dials failed, want 1", rule, st.Failed)
		}
	}
	gone := func(p *peer) {
		if code, reason := p.closed(); code != 1012 || reason != "restart" {
			t.Errorf("closed with %d %q", code, reason)
		}
	}
	f("close=1012:restart,on=session.update", `{"type":"session.update","session":{}}`, gone)
	f("fin,on=input_audio_buffer.append", `{"type":"input_audio_buffer.append","audio":"AAAA"}`, func(p *peer) { p.eof() })
	f("error=invalid_value:no such voice: x,on=session.update", `{"type":"session.update","event_id":"mine","session":{}}`, func(p *peer) {
		if e := p.expect("error"); e.str("error.code") != "invalid_value" || e.str("error.message") != "no such voice: x" || e.str("error.event_id") != "mine" {
			t.Errorf("%s %q of %s", e.str("error.code"), e.str("error.message"), e.str("error.event_id"))
		}
		p.send(`{"type":"session.update","session":{}}`)
		p.expect("session.updated") // the session goes on
	})
}

func TestHungSessionEndsWithTheServer(t *testing.T) {
	s := start(t, sim.Config{SessionDelay: time.Hour, Fail: rules(t, "hang,after=0s")})
	connect(t, s)
	eventually(t, "open", func() bool { return s.Stats().Open == 1 })
	begun := time.Now()
	s.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"status=429,retry-after=7,first=1", "close=3000:a.b,after=50ms", "reset", "fin,on=x", "error=a:b,on=x", "fin,rate=0.1", "hang,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := sim.ParseRule(s)
		if err != nil {
			return
		}
		if _, err := sim.New(sim.Config{Fail: []sim.Rule{r}}); err != nil {
			t.Errorf("%q is a rule that New refuses: %v", s, err)
		}
	})
}
