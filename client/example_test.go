package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// socket is where the daemon of the examples listens. Give New "" to find the one of
// this machine.
var socket string

func withDaemon(example func()) {
	f, err := startFake()
	if err != nil {
		panic(err)
	}
	defer f.close()
	socket = f.socket
	example()
}

// Resize a pool before the morning's calls come in.
func ExampleClient_ResizePool() {
	withDaemon(func() {
		c, err := client.New(socket)
		if err != nil {
			slog.Error("no client", "error", err)
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()

		// "" is the only pool there is.
		pool, before, err := c.ResizePool(ctx, "", 64)
		if err != nil {
			slog.Error("not resized", "error", err)
			return
		}
		fmt.Printf("%s keeps %d sessions, was %d\n", pool.GetName(), pool.GetSize(), before)
	})
	// Output: openai/gpt-realtime keeps 64 sessions, was 8
}

// Follow the number of open sessions.
func ExampleClient_WatchStats() {
	withDaemon(func() {
		c, err := client.New(socket)
		if err != nil {
			slog.Error("no client", "error", err)
			return
		}
		defer c.Close()

		for stats, err := range c.WatchStats(context.Background(), time.Second) {
			if err != nil {
				slog.Error("the watch ended", "error", err)
				return
			}
			fmt.Println("open:", stats.GetSessions().GetOpen())
			if stats.GetSessions().GetOpen() == 2 {
				break // this ends the stream
			}
		}
	})
	// Output:
	// open: 0
	// open: 1
	// open: 2
}

// Walk over the open sessions; the pages behind them do not show.
func ExampleClient_Sessions() {
	withDaemon(func() {
		c, err := client.New(socket)
		if err != nil {
			slog.Error("no client", "error", err)
			return
		}
		defer c.Close()

		for session, err := range c.Sessions(context.Background(), "", rtdv1.SessionView_SESSION_VIEW_BASIC) {
			if err != nil {
				slog.Error("the list ended", "error", err)
				return
			}
			fmt.Println(session.GetId())
		}
	})
	// Output:
	// s-1
	// s-2
	// s-3
	// s-4
	// s-5
}

// Tell a daemon that is not there from one that refuses.
func ExampleNew() {
	c, err := client.New("/nowhere/rtd.sock")
	if err != nil {
		slog.Error("no client", "error", err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	_, err = c.Info(ctx)
	fmt.Println(errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrDenied))
	fmt.Println(err)
	// Output:
	// true false
	// no rtd at /nowhere/rtd.sock: there is no such socket; is it running?
}

// Drain before an upgrade, and say what it cost.
func ExampleClient_Drain() {
	withDaemon(func() {
		c, err := client.New(socket)
		if err != nil {
			slog.Error("no client", "error", err)
			return
		}
		defer c.Close()

		for step, err := range c.Drain(context.Background(), 30*time.Second) {
			if err != nil {
				slog.Error("not drained", "error", err)
				return
			}
			d := step.GetDrain()
			fmt.Printf("%d left, %d ended, %d forced\n", d.GetRemaining(), d.GetEnded(), d.GetForced())
		}
	})
	// Output:
	// 2 left, 0 ended, 0 forced
	// 0 left, 1 ended, 1 forced
}
