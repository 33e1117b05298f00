package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/sys/unix"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// The load of the benchmarks: as many sessions, each with a chunk each way so often.
const (
	loadSessions = 300
	loadPeriod   = 20 * time.Millisecond
)

// TestMain lets the test binary stand in for the daemon that the benchmarks look at.
func TestMain(m *testing.M) {
	if upstream := os.Getenv("RTD_TEST_UPSTREAM"); upstream != "" {
		if err := serveLoaded(upstream); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveLoaded runs a daemon. It prints its address and its control socket, and for each line it reads, "blind", "see" or an
// empty one, the processor time it has used, in µs.
func serveLoaded(upstream string) error {
	base, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rtd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := New(Config{
		Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: dir + "/rtd.sock", Log: io.Discard,
		Routes: []Route{{
			Models:   []string{"mock"},
			Upstream: Upstream{Upstream: dialect.Upstream{Dialect: "openai", BaseURL: base, Model: "mock"}},
			Pool:     pool.Config{Size: 8},
		}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-d.Ready()
	fmt.Println(d.Addrs()[0], d.current().cfg.Socket)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if on := lines.Text() == "blind"; on || lines.Text() == "see" {
			d.blind.Store(on)
			d.engine.Blind(on)
		}
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return err
		}
		fmt.Println((u.Utime.Nano() + u.Stime.Nano()) / 1000)
	}
	cancel()
	d.Hurry()
	return <-done
}

// loaded is a daemon in a process of its own between clients and an upstream in this one.
type loaded struct {
	b             *testing.B
	stdin         io.WriteCloser
	stdout        *bufio.Scanner
	socket        string
	chunk, answer []byte
	begun         time.Time
	clients       []*speaker
	heard         atomic.Int64 // answers, by all clients
}

// speaker is a client.
type speaker struct {
	net.Conn
	said  [64]atomic.Int64 // when the last chunks were written, ns since begun
	n     int              // chunks written
	heard int              // bytes of answers
	took  []time.Duration  // from each chunk to its answer, in this slice
}

// load is what clients and upstream say, and whether the upstream is one of wss://.
type load struct {
	chunk, answer []byte
	secure        bool
}

// startLoaded starts the daemon.
func startLoaded(b *testing.B, l load) *loaded {
	b.Helper()
	s := &loaded{
		b:      b,
		begun:  time.Now(),
		chunk:  wire.AppendFrame(nil, wire.FromClient, ws.OpText, l.chunk),
		answer: wire.AppendFrame(nil, wire.FromServer, ws.OpText, l.answer),
	}
	serve := func(c *wiretest.UpstreamConn) {
		c.Accept()
		c.SendText(wiretest.SessionCreated)
		_ = c.Conn.SetDeadline(time.Time{})
		answerChunks(c.Conn, len(s.chunk), s.answer)
	}
	cmd := exec.Command(os.Args[0])
	if l.secure {
		ca := wiretest.NewAuthority(b)
		up := wiretest.NewTLSUpstream(b, serve, func(c *tls.Config) {
			c.Certificates = []tls.Certificate{ca.Sign(pkix.Name{CommonName: "upstream"})}
		})
		cmd.Env = append(os.Environ(), "RTD_TEST_UPSTREAM="+up.URL().String(), "SSL_CERT_FILE="+ca.WriteCA(b.TempDir()))
	} else {
		cmd.Env = append(os.Environ(), "RTD_TEST_UPSTREAM="+wiretest.NewUpstream(b, serve).URL().String())
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.stdout = bufio.NewScanner(stdout)
	b.Cleanup(func() {
		for _, c := range s.clients {
			c.Close()
		}
		s.stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the daemon: %v", err)
		}
	})
	addr, socket, _ := strings.Cut(s.line(), " ")
	s.socket = socket
	for range loadSessions {
		s.open(addr)
	}
	return s
}

func (s *loaded) open(addr string) {
	cl := wiretest.Dial(s.b, addr)
	cl.SendString(wiretest.HSWith(""))
	cl.Expect101()
	cl.ReadMessage()
	_ = cl.Conn.SetDeadline(time.Time{})
	c := &speaker{Conn: cl.Conn}
	s.clients = append(s.clients, c)
	go s.listen(c)
}

// listen notes when answers come.
func (s *loaded) listen(c *speaker) {
	buf := make([]byte, 16<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		now := time.Since(s.begun)
		before := c.heard / len(s.answer)
		c.heard += n
		for k := before; k < c.heard/len(s.answer); k++ {
			c.took = append(c.took, now-time.Duration(c.said[k%len(c.said)].Load()))
			s.heard.Add(1)
		}
	}
}

func (s *loaded) line() string {
	s.b.Helper()
	if !s.stdout.Scan() {
		s.b.Fatal("the daemon says nothing")
	}
	return s.stdout.Text()
}

// tell gives the daemon a word and returns the processor time that it has used, in µs.
func (s *loaded) tell(word string) float64 {
	s.b.Helper()
	if _, err := io.WriteString(s.stdin, word+"\n"); err != nil {
		s.b.Fatal(err)
	}
	v, err := strconv.ParseFloat(s.line(), 64)
	if err != nil {
		s.b.Fatal(err)
	}
	return v
}

// speak lets every client send a chunk each period, staggered, for so many periods, and waits for the answers. It returns
// how many chunks there were both ways.
func (s *loaded) speak(periods int) (chunks int) {
	s.b.Helper()
	for _, c := range s.clients {
		c.took = c.took[:0]
	}
	want := s.heard.Load() + int64(periods*len(s.clients))
	start := time.Now()
	step := loadPeriod / time.Duration(len(s.clients))
	for n := range periods * len(s.clients) {
		if ahead := time.Until(start.Add(time.Duration(n) * step)); ahead > 500*time.Microsecond {
			time.Sleep(ahead)
		}
		c := s.clients[n%len(s.clients)]
		c.said[c.n%len(c.said)].Store(int64(time.Since(s.begun)))
		c.n++
		if _, err := c.Write(s.chunk); err != nil {
			s.b.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); s.heard.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.b.Fatalf("%d answers are missing", want-s.heard.Load())
		}
	}
	length := time.Duration(periods) * loadPeriod
	if late := time.Since(start) - length; late > length/2 {
		s.b.Logf("the load was %v late: the machine is too busy to believe the figures", late)
	}
	return 2 * periods * len(s.clients)
}

// stagger lets every client be so many chunks ahead at most, so that not all are at the same one.
func (s *loaded) stagger(most int) {
	all := s.clients
	for n := 1; n < most; n++ {
		s.clients = all[n*len(all)/most:]
		s.speak(1)
	}
	s.clients = all
}

// answerChunks answers each chunk of so many bytes.
func answerChunks(conn net.Conn, size int, answer []byte) {
	buf := make([]byte, 64<<10)
	have := 0
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		for have += n; have >= size; have -= size {
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

// reportRatio reports the median of ratios with the 95% interval of that median (by order statistics) and the quartiles.
func reportRatio(b *testing.B, name string, ratios []float64) {
	v := slices.Sorted(slices.Values(ratios))
	at := func(rank float64) float64 { return v[min(max(int(math.Round(rank)), 0), len(v)-1)] }
	last, half := float64(len(v)-1), 0.98*math.Sqrt(float64(len(v)))
	b.ReportMetric(at(last/2), name)
	b.ReportMetric(at(last/2-half), name+"-low")
	b.ReportMetric(at(last/2+half), name+"-high")
	b.ReportMetric(at(last/4), name+"-q1")
	b.ReportMetric(at(last*3/4), name+"-q3")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
