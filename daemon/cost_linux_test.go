package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobwas/ws"

	"github.com/rtd-project/rtd/internal/dialect"
	"github.com/rtd-project/rtd/internal/wire"
	"github.com/rtd-project/rtd/internal/wiretest"
	"github.com/rtd-project/rtd/pool"
)

// The load of the benchmark: as many sessions, each with a chunk each way so often, for so long a time per turn. Turns are
// short, so that what else the machine does meets both alike.
const (
	costSessions = 300
	costPeriod   = 20 * time.Millisecond
	costTurn     = 300 * time.Millisecond
)

// TestMain lets the test binary stand in for the daemons that the benchmark compares.
func TestMain(m *testing.M) {
	if upstream := os.Getenv("RTD_TEST_UPSTREAM"); upstream != "" {
		os.Exit(serveForCost(upstream, os.Getenv("RTD_TEST_BLIND") != ""))
	}
	os.Exit(m.Run())
}

// serveForCost runs a daemon. It prints its address, and for each line it reads the processor time it has used, in µs.
func serveForCost(upstream string, blind bool) int {
	base, err := url.Parse(upstream)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	dir, err := os.MkdirTemp("", "rtd")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	d, err := New(Config{
		Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Socket: dir + "/rtd.sock", Log: io.Discard, blind: blind,
		Routes: []Route{{
			Models:   []string{"mock"},
			Upstream: Upstream{Upstream: dialect.Upstream{Dialect: "openai", BaseURL: base, Model: "mock"}},
			Pool:     pool.Config{Size: 8},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-d.Ready()
	fmt.Println(d.Addrs()[0])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println((u.Utime.Nano() + u.Stime.Nano()) / 1000)
	}
	cancel()
	d.Hurry()
	<-done
	return 0
}

// contender is a daemon in a process of its own, with its clients.
type contender struct {
	b       *testing.B
	stdin   io.WriteCloser
	stdout  *bufio.Scanner
	clients []net.Conn
	heard   atomic.Int64 // bytes, by the clients
}

func startContender(b *testing.B, upstream string, blind bool) *contender {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RTD_TEST_UPSTREAM="+upstream)
	if blind {
		cmd.Env = append(cmd.Env, "RTD_TEST_BLIND=1")
	}
	c := &contender{b: b}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c.stdout = bufio.NewScanner(stdout)
	b.Cleanup(func() {
		for _, conn := range c.clients {
			conn.Close()
		}
		c.stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the daemon: %v", err)
		}
	})
	addr := c.line()
	for range costSessions {
		cl := wiretest.Dial(b, addr)
		cl.SendString(wiretest.HSWith(""))
		cl.Expect101()
		cl.ReadMessage()
		_ = cl.Conn.SetDeadline(time.Time{})
		c.clients = append(c.clients, cl.Conn)
		go func() {
			buf := make([]byte, 16<<10)
			for {
				n, err := cl.Conn.Read(buf)
				c.heard.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	return c
}

func (c *contender) line() string {
	c.b.Helper()
	if !c.stdout.Scan() {
		c.b.Fatal("the daemon says nothing")
	}
	return c.stdout.Text()
}

// used is the processor time that the daemon has used, in µs.
func (c *contender) used() float64 {
	c.b.Helper()
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		c.b.Fatal(err)
	}
	v, err := strconv.ParseFloat(c.line(), 64)
	if err != nil {
		c.b.Fatal(err)
	}
	return v
}

// speak lets every client send a chunk each period, staggered, and returns the daemon's processor time per chunk and
// direction, in µs.
func (c *contender) speak(chunk, answer []byte) float64 {
	c.b.Helper()
	before, heard := c.used(), c.heard.Load()
	start := time.Now()
	rounds := int(costTurn / costPeriod)
	step := costPeriod / costSessions
	for n := range rounds * costSessions {
		if ahead := time.Until(start.Add(time.Duration(n) * step)); ahead > 500*time.Microsecond {
			time.Sleep(ahead)
		}
		if _, err := c.clients[n%costSessions].Write(chunk); err != nil {
			c.b.Fatal(err)
		}
	}
	want := heard + int64(rounds*costSessions*len(answer))
	for deadline := time.Now().Add(5 * time.Second); c.heard.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.b.Fatalf("%d bytes of answers are missing", want-c.heard.Load())
		}
	}
	if late := time.Since(start) - costTurn; late > costTurn/2 {
		c.b.Logf("the load was %v late: the machine is too busy to believe the figures", late)
	}
	return (c.used() - before) / float64(2*rounds*costSessions)
}

// BenchmarkStatisticsCost compares the processor time of two daemons, one with its statistics turned off, under the same
// load in turns: 300 sessions with a 20 ms chunk each way. ratio is the median over the turns of with against without, low
// and high are its quartiles; ratio-quiet compares the lowest tenths of both, which other work on the machine disturbed
// least. -benchtime 60x gives them enough turns.
func BenchmarkStatisticsCost(b *testing.B) {
	chunk := wire.AppendFrame(nil, wire.FromClient, ws.OpText, appendUp)
	answer := wire.AppendFrame(nil, wire.FromServer, ws.OpText, deltaDown)
	up := wiretest.NewUpstream(b, func(c *wiretest.UpstreamConn) {
		c.Accept()
		c.SendText(wiretest.SessionCreated)
		_ = c.Conn.SetDeadline(time.Time{})
		answerChunks(c.Conn, len(chunk), answer)
	})
	base := up.URL().String()
	with, without := startContender(b, base, false), startContender(b, base, true)
	with.speak(chunk, answer)
	without.speak(chunk, answer)
	var ratios, on, off []float64
	for b.Loop() {
		x, y := with.speak(chunk, answer), without.speak(chunk, answer)
		y2, x2 := without.speak(chunk, answer), with.speak(chunk, answer) // and the other way round
		x, y = x+x2, y+y2
		ratios, on, off = append(ratios, x/y), append(on, x/2), append(off, y/2)
	}
	b.ReportMetric(quantile(ratios, 0.5), "ratio")
	b.ReportMetric(quantile(ratios, 0.25), "ratio-low")
	b.ReportMetric(quantile(ratios, 0.75), "ratio-high")
	b.ReportMetric(quantile(on, 0.1)/quantile(off, 0.1), "ratio-quiet")
	b.ReportMetric(quantile(on, 0.5), "on-µs/chunk")
	b.ReportMetric(quantile(off, 0.5), "off-µs/chunk")
	b.ReportMetric(0, "ns/op")
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

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1)+0.5)]
}
