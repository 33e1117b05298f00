package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

const (
	// retryAfter is the time between two attempts to find a daemon that is gone.
	retryAfter = time.Second
	// More sessions than listFew are listed at a look that is about listEvery after the
	// last list, or later: a list that took d is not asked for again for listShare times d.
	listFew   = 100
	listEvery = 2 * time.Second
	listShare = 20
	// drawsPerSecond is how often the view is drawn again at most: as often as a person can tell apart.
	drawsPerSecond = 20
)

// canLive reports whether there is somebody to watch: a terminal that can be written
// all over, and keys to read.
func (a *app) canLive() bool {
	kind := os.Getenv("TERM")
	return a.format == formatTable && terminalSize(a.stdout) != nil && term.IsTerminal(int(os.Stdin.Fd())) && kind != "" && kind != "dumb"
}

// runLive shows the live view until the user leaves it. A daemon that cannot be
// reached at the start is an error; one that goes later is waited for.
func runLive(ctx context.Context, a *app, interval time.Duration, first view) error {
	stats, err := call(ctx, a, func(ctx context.Context, c *client.Client) (*rtdv1.Stats, error) { return c.Stats(ctx) })
	if err != nil {
		return err
	}
	stayBehind()
	model := &liveModel{live: &live{theme: newTheme(), interval: interval, view: first}, width: 80, height: 24}
	model.snapshot(stats)

	program := tea.NewProgram(model, tea.WithInput(os.Stdin), tea.WithOutput(a.stdout), tea.WithEnvironment(colourless(os.Environ())), tea.WithoutSignalHandler(), tea.WithFPS(drawsPerSecond))
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, program.Quit)()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		feed(ctx, a, interval, program.Send)
	}()
	_, err = program.Run()
	cancel()
	<-fed
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	return nil
}

// colourless spells out NO_COLOR, which may have any value, as what bubbletea reads.
func colourless(environ []string) []string {
	if os.Getenv("NO_COLOR") == "" {
		return environ
	}
	return append(environ, "NO_COLOR=1")
}

type (
	// lookMsg is what one look brought: drawn at once, for a picture costs more than what is in it.
	lookMsg struct {
		stats    *rtdv1.Stats
		listed   bool
		sessions []*rtdv1.Session // if listed
	}
	lostMsg struct {
		err error
		at  time.Time
	}
)

// feed sends what the daemon measures until ctx ends, and looks for the daemon again
// whenever it is gone.
func feed(ctx context.Context, a *app, interval time.Duration, send func(tea.Msg)) {
	for {
		err := feedOnce(ctx, a, interval, send)
		if ctx.Err() != nil {
			return
		}
		send(lostMsg{err, time.Now()})
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// feedOnce has a connection of its own: that of a daemon that went would wait ever
// longer before it tries again.
func feedOnce(ctx context.Context, a *app, interval time.Duration, send func(tea.Msg)) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var nextList time.Time
	for stats, err := range c.WatchStats(ctx, interval) {
		if err != nil {
			return err
		}
		begun := time.Now()
		if begun.Before(nextList) {
			send(lookMsg{stats: stats})
			continue
		}
		sessions, err := bounded(ctx, func(ctx context.Context) ([]*rtdv1.Session, error) {
			return allSessions(ctx, c, "", rtdv1.SessionView_SESSION_VIEW_BASIC)
		})
		if err != nil {
			return err
		}
		pause := listShare * time.Since(begun)
		if len(sessions) > listFew {
			pause = max(pause, listEvery-listEvery/10)
		}
		nextList = begun.Add(pause)
		send(lookMsg{stats, true, sessions})
	}
	return errors.New("it ended the watch")
}

// liveModel is the live view as bubbletea runs it.
type liveModel struct {
	*live
	width, height int
}

func (m *liveModel) Init() tea.Cmd { return nil }

func (m *liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case lookMsg:
		m.snapshot(msg.stats)
		if msg.listed {
			m.list(msg.sessions)
		}
	case lostMsg:
		m.lose(msg.err, msg.at)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.PasteMsg:
		m.paste(msg.Content)
	case tea.KeyPressMsg:
		switch key := msg.Keystroke(); {
		case key == "ctrl+z":
			return m, tea.Suspend
		case key == "ctrl+l":
			return m, tea.ClearScreen
		case m.press(msg.String(), msg.Text):
			return m, tea.Quit
		}
	}
	return m, nil
}

func (m *liveModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(m.width, m.height), "\n"))
	v.AltScreen = true
	return v
}
