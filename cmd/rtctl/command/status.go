package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

type statusDocument struct {
	Version        string             `json:"version"`
	Commit         string             `json:"commit"`
	GoVersion      string             `json:"go_version"`
	PID            uint32             `json:"pid"`
	StartedAt      *time.Time         `json:"started_at"`
	Uptime         *float64           `json:"uptime_ms"`
	State          string             `json:"state"`
	Ready          bool               `json:"ready"`
	NotReadyReason string             `json:"not_ready_reason"`
	Listeners      []listenerDocument `json:"listeners"`
	Routes         []routeDocument    `json:"routes"`
	ConfigPath     string             `json:"config_path"`
	Sessions       uint32             `json:"sessions"`
	Pools          uint32             `json:"pools"`
	Warm           uint32             `json:"warm"`
	WarmTarget     uint32             `json:"warm_target"`
	Drain          *drainDocument     `json:"drain"`
	LogLevel       string             `json:"log_level"`
}

type listenerDocument struct {
	Name    string `json:"name"`
	Network string `json:"network"`
	Address string `json:"address"`
}

type routeDocument struct {
	Model  string `json:"model"`
	Target string `json:"target"`
}

type drainDocument struct {
	Remaining uint32   `json:"remaining"`
	Ended     uint32   `json:"ended"`
	Forced    uint32   `json:"forced"`
	Elapsed   *float64 `json:"elapsed_ms"`
	Left      *float64 `json:"left_ms"`
}

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what runs, where it listens and whether it is ready",
		Long: `Show what runs, where it listens and whether it is ready.

The status is 0 whenever the daemon answers, ready or not: .ready of -o json tells.`,
		Example: `  rtctl status
  rtctl status -o json | jq .ready`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (*rtdv1.DaemonInfo, error) {
				return c.Info(ctx)
			})
			if err != nil {
				return err
			}
			return a.emit(documentStatus(info), a.statusScreen(info))
		},
	}
}

func documentStatus(i *rtdv1.DaemonInfo) statusDocument {
	d := statusDocument{
		Version: i.GetVersion(), Commit: i.GetCommit(), GoVersion: i.GetGoVersion(), PID: i.GetPid(),
		StartedAt: instant(i.GetStartedAt()), Uptime: ms(i.GetUptime()),
		State: word(i.GetState().String(), "DAEMON_STATE_"), Ready: i.GetReady(), NotReadyReason: i.GetNotReadyReason(),
		Listeners: []listenerDocument{}, Routes: []routeDocument{}, ConfigPath: i.GetConfigPath(),
		Sessions: i.GetSessions(), Pools: i.GetPools(), Warm: i.GetWarm(), WarmTarget: i.GetWarmTarget(),
		Drain: documentDrain(i.GetDrain()), LogLevel: word(i.GetLogLevel().String(), "LOG_LEVEL_"),
	}
	for _, l := range i.GetListeners() {
		d.Listeners = append(d.Listeners, listenerDocument{l.GetName(), l.GetNetwork(), l.GetAddress()})
	}
	for _, r := range i.GetRoutes() {
		d.Routes = append(d.Routes, routeDocument{r.GetModel(), r.GetTarget()})
	}
	return d
}

func documentDrain(d *rtdv1.Drain) *drainDocument {
	if d == nil {
		return nil
	}
	return &drainDocument{d.GetRemaining(), d.GetEnded(), d.GetForced(), ms(d.GetElapsed()), ms(d.GetLeft())}
}

// statusScreen is all of one daemon, or the row of one among several.
func (a *app) statusScreen(i *rtdv1.DaemonInfo) fmt.Stringer {
	if a.part != nil {
		t := newTable("VERSION", ">UP", ">SESSIONS", ">WARM", "STATE")
		t.add(i.GetVersion(), span(i.GetUptime()), number(i.GetSessions()), number(i.GetWarm())+"/"+number(i.GetWarmTarget()), stateLine(i))
		return t
	}
	f := &fields{}
	f.add("rtd", "%s, pid %d, up %s", buildLine(i.GetVersion(), i.GetCommit(), i.GetGoVersion()), i.GetPid(), span(i.GetUptime()))
	f.add("state", "%s", stateLine(i))
	if d := i.GetDrain(); d != nil {
		f.add("drain", "%s", drainLine(d))
	}
	f.add("sessions", "%s", number(i.GetSessions()))
	f.add("warm", "%s of %s, in %s", number(i.GetWarm()), number(i.GetWarmTarget()), plural(i.GetPools(), "pool"))
	for _, l := range i.GetListeners() {
		f.add(l.GetName(), "%s %s", l.GetNetwork(), l.GetAddress())
	}
	for _, r := range i.GetRoutes() {
		f.add("route", "%s to %s", r.GetModel(), r.GetTarget())
	}
	config := i.GetConfigPath()
	if config == "" {
		config = "none, from the environment"
	}
	f.add("config", "%s", config)
	if i.GetLogLevel() != rtdv1.LogLevel_LOG_LEVEL_UNSPECIFIED {
		f.add("log level", "%s", word(i.GetLogLevel().String(), "LOG_LEVEL_"))
	}
	return f
}

// stateLine is where the daemon stands: "serving, ready".
func stateLine(i *rtdv1.DaemonInfo) string {
	state := word(i.GetState().String(), "DAEMON_STATE_")
	if !i.GetReady() {
		return state + ", not ready: " + i.GetNotReadyReason()
	}
	return state + ", ready"
}

// drainLine is how far a drain has come, in words.
func drainLine(d *rtdv1.Drain) string {
	line := number(d.GetRemaining()) + " left, " + number(d.GetEnded()) + " ended, " + number(d.GetForced()) + " forced"
	if left := d.GetLeft(); left != nil && d.GetRemaining() > 0 {
		line += ", " + span(left) + " to go"
	}
	return line
}

func plural(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}
