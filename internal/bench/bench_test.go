package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wire"
)

// serveSim runs a scripted upstream until the test ends.
func serveSim(t *testing.T, cfg sim.Config) *sim.Server {
	t.Helper()
	s, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func target(t *testing.T, name, raw string) Target {
	t.Helper()
	u, err := Endpoint(raw, "mock")
	if err != nil {
		t.Fatal(err)
	}
	return Target{Name: name, URL: u}
}

// listen accepts connections until the test ends and waits for what serves them.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// relay passes bytes on to u, each piece of the upstream's delay later, and is what a gateway looks like that is slow.
func relay(t *testing.T, u string, delay time.Duration) (addr string) {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, func(client net.Conn) {
		up, err := net.Dial("tcp", parsed.Host)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, client); up.Close() }()
		later(client, up, delay)
	})
}

// later copies, and keeps the distance between pieces.
func later(dst io.Writer, src io.Reader, delay time.Duration) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 64<<10)
			n, err := src.Read(buf)
			if n > 0 {
				pieces <- piece{buf[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.at))
		if _, err := dst.Write(p.data); err != nil {
			break
		}
	}
	for range pieces { // the reader must not stay behind
	}
}

// gateway answers like rtd in front of a pool of which every n-th session is there, and is the upstream itself.
func gateway(t *testing.T, every int, dial time.Duration) (addr string) {
	t.Helper()
	var mu sync.Mutex
	calls := 0
	return listen(t, func(c net.Conn) {
		req, _, err := wire.ReadRequest(c, 5*time.Second)
		if err != nil {
			return
		}
		mu.Lock()
		calls++
		result := "miss"
		if calls%every == 0 {
			result = "hit"
		}
		mu.Unlock()
		if result == "miss" {
			time.Sleep(dial)
		}
		answer := req.Accept("", http.Header{"Rtd-Pool": {result}})
		answer = appendText(answer, `{"type":"session.created","event_id":"e","session":{}}`)
		if _, err := c.Write(answer); err != nil {
			return
		}
		s := &socketServer{conn: c}
		for {
			text, err := s.read()
			switch {
			case err != nil:
				return
			case strings.Contains(text, `"response.create"`):
				_, _ = c.Write(appendText(nil, `{"type":"response.output_audio.delta","delta":"AAAA"}`))
			}
		}
	})
}

func connect(t *testing.T, cfg Config) *Report {
	t.Helper()
	cfg.MaxLate = time.Minute // these tests share a machine with others
	r, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Invalid) > 0 {
		t.Errorf("invalid: %q", r.Invalid)
	}
	return r
}

func (r *Report) phase(leg, phase string) Figures { return r.leg(leg).Phases[phase] }

// slack is what a machine that does other things may add to the least of several times, in milliseconds.
const slack = 30
