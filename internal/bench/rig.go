package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// Delays of a rig's upstream when nothing else is said: about what a public provider shows to a client with a good line.
const (
	DefaultDialDelay     = 120 * time.Millisecond
	DefaultSessionDelay  = 8 * time.Millisecond
	DefaultResponseDelay = 300 * time.Millisecond
)

// rigModel is what the calls of a rig ask for.
const rigModel = "mock"

// RigConfig says what a Rig starts.
type RigConfig struct {
	// Rtctl and Rtd are the programs. Rtctl runs the scripted upstream.
	Rtctl, Rtd string
	// Delays of the upstream: to the 101, from there to session.created, and from response.created to the first audio.
	DialDelay, SessionDelay, ResponseDelay time.Duration
	// PoolSize is how many sessions the gateway with a pool keeps ready, MaxDialing how many it warms at a time.
	PoolSize, MaxDialing int
}

// RigSetup is a RigConfig in a report.
type RigSetup struct {
	TLS           bool    `json:"tls"`
	DialDelay     float64 `json:"dial_delay_ms"`
	SessionDelay  float64 `json:"session_delay_ms"`
	ResponseDelay float64 `json:"response_delay_ms"`
	PoolSize      int     `json:"pool_size"`
	MaxDialing    int     `json:"max_dialing"`
}

// Setup is c as a report shows it.
func (c RigConfig) Setup() *RigSetup {
	return &RigSetup{true, ms(c.DialDelay), ms(c.SessionDelay), ms(c.ResponseDelay), c.PoolSize, c.MaxDialing}
}

// Rig is a scripted upstream behind TLS and two rtd in front of it, one with a warm pool and one without, each a process
// of its own on loopback. Close ends them.
type Rig struct {
	// Legs are the upstream itself, the gateway with its pool and the one without.
	Legs []Target

	dir       string
	processes []*process
}

// StartRig starts the processes and waits until the pool is full. The error says which of them is not ready, and why.
func StartRig(ctx context.Context, cfg RigConfig) (*Rig, error) {
	r, err := newRig()
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx, cfg); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func newRig() (*Rig, error) {
	dir, err := os.MkdirTemp("", "rtd-bench-") // short: a socket's path has 108 bytes
	if err != nil {
		return nil, err
	}
	return &Rig{dir: dir}, nil
}

// Close ends the processes, last started first, and removes what they wrote.
func (r *Rig) Close() {
	for i := len(r.processes) - 1; i >= 0; i-- {
		r.processes[i].stop()
	}
	_ = os.RemoveAll(r.dir) // a temporary directory left behind is no failure of the run
}

func (r *Rig) run(name, program string, args ...string) (*process, error) {
	p, err := startProcess(r.dir, name, program, args...)
	if err == nil {
		r.processes = append(r.processes, p)
	}
	return p, err
}

func (r *Rig) start(ctx context.Context, cfg RigConfig) error {
	ca := filepath.Join(r.dir, "ca.pem")
	upstream, err := r.upstream(ctx, cfg.Rtctl, "--tls", "--ca-out", ca, "--dial-delay", cfg.DialDelay.String(),
		"--session-delay", cfg.SessionDelay.String(), "--response-delay", cfg.ResponseDelay.String(),
		"--audio-ms", "200") // calls hang up at the first audio: more would only be in the way of the others
	if err != nil {
		return err
	}
	direct, err := Endpoint(upstream, rigModel)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("the scripted upstream wrote no certificate")
	}
	r.Legs = []Target{{Name: LegDirect, URL: direct, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	for _, gateway := range []struct {
		name string
		size int
	}{{LegGateway, cfg.PoolSize}, {LegGatewayOff, 0}} {
		_, target, err := r.gateway(ctx, gateway.name, cfg.Rtd, upstream, "--upstream-ca", ca,
			"--pool-size", fmt.Sprint(gateway.size), "--max-dialing", fmt.Sprint(cfg.MaxDialing))
		if err != nil {
			return err
		}
		r.Legs = append(r.Legs, target)
	}
	return nil
}

// upstream starts the scripted upstream and returns its URL.
func (r *Rig) upstream(ctx context.Context, rtctl string, args ...string) (string, error) {
	p, err := r.run("upstream", rtctl, append([]string{"sim", "-o", "json", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return "", err
	}
	line, err := p.firstLine(ctx)
	if err != nil {
		return "", err
	}
	var doc struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.URL == "" {
		return "", p.failed(errors.New("it does not say where it listens"))
	}
	return doc.URL, nil
}

// gateway starts an rtd in front of upstream and waits until its pool is full.
func (r *Rig) gateway(ctx context.Context, name, rtd, upstream string, args ...string) (*process, Target, error) {
	socket := filepath.Join(r.dir, name+".sock")
	p, err := r.run(name, rtd, append([]string{
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--socket", socket,
		"--provider", "compatible", "--model", rigModel, "--upstream", strings.TrimSuffix(upstream, "/realtime"),
	}, args...)...)
	if err != nil {
		return nil, Target{}, err
	}
	c, err := client.New(socket)
	if err != nil {
		return nil, Target{}, err
	}
	defer c.Close()
	var info *rtdv1.DaemonInfo
	err = p.await(ctx, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		info, err = c.Info(ctx)
		return info.GetState() == rtdv1.DaemonState_DAEMON_STATE_SERVING && info.GetWarm() >= info.GetWarmTarget(), err
	})
	if err != nil {
		return nil, Target{}, err
	}
	for _, l := range info.GetListeners() {
		if l.GetName() == "data" {
			u := &url.URL{Scheme: "ws", Host: l.GetAddress(), Path: "/v1/realtime", RawQuery: "model=" + rigModel}
			return p, Target{Name: name, URL: u}, nil
		}
	}
	return nil, Target{}, p.failed(errors.New("it does not say where it listens"))
}
