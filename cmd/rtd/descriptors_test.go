package main

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtd-project/rtd/cmd/rtctl/command"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// limitDescriptors is what `ulimit -n` does, for a process that stands in for rtd.
func limitDescriptors(n string) {
	limit, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		panic(err)
	}
}

// More clients than descriptors: those that are served go on, operators get through, the log stays short, and when the
// flood is over so is everything else.
func TestAFloodOfClientsLeavesDescriptorsForTheRest(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	p := startProcess(t, []string{"RTD_TEST_NOFILE=128"}, upstreamArgs(up, "--pool-size", "1")...)
	served := wiretest.Connect(t, p.listen)
	served.ExpectText(wiretest.SessionCreated)
	var flood []net.Conn
	refused := make(chan bool, 1000)
	for range 400 {
		conn, err := net.Dial("tcp", p.listen)
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, conn)
		go func() {
			var head [64]byte
			n, _ := conn.Read(head[:])
			refused <- strings.HasPrefix(string(head[:n]), "HTTP/1.1 503 ")
		}()
	}
	told := 0
	for deadline := time.After(10 * time.Second); told == 0; {
		select {
		case said503 := <-refused:
			if said503 {
				told++
			}
		case <-deadline:
			t.Fatal("no client was told why it is refused")
		}
	}
	for range 5 {
		served.SendHex(wiretest.Hello)
		served.ExpectText("Hello")
		var out bytes.Buffer
		if status := command.Execute([]string{"--endpoint", p.socket, "pool", "list"}, &out, &out); status != 0 {
			t.Errorf("rtctl: %s", &out)
		}
	}
	for _, conn := range flood {
		conn.Close()
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c := wiretest.Dial(t, p.listen)
		c.SendString(wiretest.HS)
		if head, err := c.TryReadHead(); err == nil && strings.HasPrefix(head, "HTTP/1.1 101 ") {
			break
		}
		c.Close()
		if time.Since(begun) > 10*time.Second {
			t.Fatal("nobody is served after the flood")
		}
	}
	if n := strings.Count(p.output(), "turned away") + strings.Count(p.output(), "cannot accept"); n == 0 || n > 2 {
		t.Errorf("%d lines about the flood:\n%s", n, p.output())
	}
}
