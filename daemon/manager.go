package daemon

import (
	"fmt"
	"time"

	"github.com/rtd-project/rtd/internal/unixsock"
)

// statusInterval is how often the service manager's status line is brought up to date.
const statusInterval = 5 * time.Second

// notify tells the service manager, if there is one. It can do without: a failure is only logged.
func (d *Daemon) notify(states ...string) {
	if err := unixsock.Notify(states...); err != nil {
		d.log.Debug("cannot notify the service manager", "error", err)
	}
}

// keepManagerInformed sends the status line, and the watchdog's sign of life where one is wanted, until stop is closed.
// The sign is sent by the same loop that looks at every pool and asks every poller: a daemon that hangs gives none.
func (d *Daemon) keepManagerInformed(stop <-chan struct{}) {
	interval := statusInterval
	watchdog := unixsock.WatchdogInterval()
	if watchdog > 0 && watchdog < interval {
		interval = watchdog
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		states := []string{unixsock.Status(d.statusLine())}
		if watchdog > 0 {
			states = append(states, unixsock.Watchdog)
		}
		d.notify(states...)
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// statusLine is what `systemctl status` shows.
func (d *Daemon) statusLine() string {
	var warm, want int
	for _, p := range d.pools.List() {
		s := p.Stats()
		warm += s.Idle
		want += s.Size
	}
	live := d.engine.Stats().Live
	if d.sessions.isClosed() {
		return "draining, " + sessionsText(live) + " left"
	}
	return fmt.Sprintf("%d of %d warm, %s", warm, want, sessionsText(live))
}

func sessionsText(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}
