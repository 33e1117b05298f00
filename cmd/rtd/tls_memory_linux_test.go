package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtd-project/rtd/internal/sim"
	"github.com/rtd-project/rtd/internal/wiretest"
)

// BenchmarkIdleSessionMemory reports what an idle session costs in resident memory of a daemon in a process of its own, by
// the encryption of its two legs, and as a multiple of one without.
func BenchmarkIdleSessionMemory(b *testing.B) {
	var plain float64
	for _, legs := range []struct {
		name             string
		client, upstream bool
	}{{"plain", false, false}, {"tls-upstream", false, true}, {"tls-client", true, false}, {"tls-both", true, true}} {
		b.Run(legs.name, func(b *testing.B) {
			each := idleMemory(b, legs.client, legs.upstream)
			if !legs.client && !legs.upstream {
				plain = each
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(each, "B/session")
			if plain > 0 {
				b.ReportMetric(each/plain, "x-plain")
			}
		})
	}
}

// idleMemory is the slope between two numbers of sessions, so that what the first ones cost once does not count.
func idleMemory(b *testing.B, client, upstream bool) float64 {
	const few, many = 500, 3000
	ca := wiretest.NewAuthority(b)
	dir := b.TempDir()
	base := startUpstream(b, dir, upstream)
	file := "listen: [127.0.0.1:0]\nadmin: 127.0.0.1:0\ncontrol: {socket: " + dir + "/s}\nupstreams:\n  - {name: up, provider: compatible, url: \"" + base + "\""
	if upstream {
		file += ", tls: {ca_file: " + dir + "/upstream.pem}"
	}
	file += "}\nroutes:\n  - {models: [mock], pool: {size: 0}}\n"
	if client {
		p := ca.WritePair(dir, "gateway")
		file += "tls: {cert_file: " + p.Cert + ", key_file: " + p.Key + "}\n"
	}
	addr, pid := startMeasured(b, ca.Write(filepath.Join(dir, "rtd.yaml"), []byte(file)))
	dial := func() (net.Conn, error) { return net.Dial("tcp", addr) }
	if client {
		dial = func() (net.Conn, error) { return tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool()}) }
	}
	openIdle(b, few, dial)
	before := leastResident(b, pid)
	openIdle(b, many-few, dial)
	return float64(leastResident(b, pid)-before) / (many - few)
}

func startUpstream(b *testing.B, dir string, secure bool) (base string) {
	b.Helper()
	s, err := sim.New(sim.Config{TLS: secure})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(b.Context(), ln) }()
	b.Cleanup(func() { s.Close(); <-done })
	if secure {
		if err := os.WriteFile(filepath.Join(dir, "upstream.pem"), s.CAPEM(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return strings.TrimSuffix(s.URL(), "/realtime")
}

// startMeasured runs rtd until the benchmark ends.
func startMeasured(b *testing.B, file string) (addr string, pid int) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "--config", file, "--log-level", "info")
	cmd.Env = append(os.Environ(), "RTD_TEST_MAIN=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ready, exited := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(exited)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var l struct {
				Message string `json:"@message"`
				Listen  string `json:"listen"`
			}
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Message == "ready" {
				ready <- l.Listen
			}
		}
		_ = cmd.Wait()
	}()
	b.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
	select {
	case addr = <-ready:
	case <-exited:
		b.Fatal("rtd ended at once")
	case <-time.After(20 * time.Second):
		b.Fatal("rtd is not ready")
	}
	return addr, cmd.Process.Pid
}

// openIdle opens sessions, which last until the benchmark ends, past their session.created.
func openIdle(b *testing.B, n int, dial func() (net.Conn, error)) {
	b.Helper()
	next := make(chan struct{}, n)
	for range n {
		next <- struct{}{}
	}
	close(next)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range next {
				conn, err := dial()
				if err != nil {
					b.Error(err)
					return
				}
				b.Cleanup(func() { conn.Close() })
				if err := awaitCreated(conn); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func awaitCreated(conn net.Conn) error {
	if _, err := io.WriteString(conn, wiretest.HS); err != nil {
		return err
	}
	var got []byte
	buf := make([]byte, 8<<10)
	for !bytes.Contains(got, []byte(`"session.created"`)) {
		n, err := conn.Read(buf)
		if err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
		got = append(got, buf[:n]...)
	}
	return nil
}

// leastResident is the least resident set of a process, in bytes, over the seconds in which it gives back what the
// handshakes left.
func leastResident(b *testing.B, pid int) (least int64) {
	b.Helper()
	for range 10 {
		time.Sleep(500 * time.Millisecond) // there is no event to wait for in another process
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.Fatal(err)
		}
		_, line, _ := bytes.Cut(status, []byte("\nVmRSS:"))
		var kib int64
		if _, err := fmt.Sscan(string(line), &kib); err != nil {
			b.Fatal(err)
		}
		if least == 0 || kib<<10 < least {
			least = kib << 10
		}
	}
	return least
}
