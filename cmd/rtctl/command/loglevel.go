package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// logLevels are what people may set, the chattiest first.
var logLevels = []string{"trace", "debug", "info", "warn", "error", "off"}

type logLevelDocument struct {
	Level      string `json:"level"`
	Configured string `json:"configured"` // what a reset goes back to
}

type logLevelChangeDocument struct {
	Level    string `json:"level"`
	Previous string `json:"previous"`
}

func newLogLevel(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "log-level",
		Short: "Show and change how much rtd logs",
		Long: `Show and change how much rtd logs, while it runs.

A level that was set lasts until the next start, or until a reload that changes
log.level. Credentials are redacted at every level.`,
		Example: `  rtctl log-level get
  rtctl log-level set debug
  rtctl log-level reset`,
	}, newLogLevelGet(a), newLogLevelSet(a), newLogLevelReset(a))
}

func newLogLevelGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "get",
		Short:   "Show the level in force, and the configured one where that differs",
		Example: `  rtctl log-level get`,
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (logLevelDocument, error) {
				level, err := c.LogLevel(ctx)
				if err != nil {
					return logLevelDocument{}, err
				}
				configured, err := c.ConfiguredLogLevel(ctx)
				return logLevelDocument{levelWord(level), levelWord(configured)}, err
			})
			if err != nil {
				return err
			}
			shown := doc.Level
			if doc.Configured != doc.Level {
				shown += ", configured " + doc.Configured
			}
			return a.emit(doc, text(shown+"\n"))
		},
	}
}

func newLogLevelSet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set LEVEL",
		Short: "Log what has this level or weighs more: trace, debug, info, warn, error or off",
		Example: `  rtctl log-level set debug
  rtctl log-level set off`,
		Args:      arguments("the level"),
		ValidArgs: logLevels,
		RunE: func(cmd *cobra.Command, args []string) error {
			level, err := parseLevel(args[0])
			if err != nil {
				return err
			}
			before, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (rtdv1.LogLevel, error) {
				return c.SetLogLevel(ctx, level)
			})
			if err != nil {
				return err
			}
			return a.emitLevel(level, before)
		},
	}
}

func newLogLevelReset(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "reset",
		Short:   "Go back to the configured level",
		Example: `  rtctl log-level reset`,
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			type change struct{ now, before rtdv1.LogLevel }
			did, err := call(cmd.Context(), a, func(ctx context.Context, c *client.Client) (change, error) {
				now, before, err := c.ResetLogLevel(ctx)
				return change{now, before}, err
			})
			if err != nil {
				return err
			}
			return a.emitLevel(did.now, did.before)
		},
	}
}

func (a *app) emitLevel(level, before rtdv1.LogLevel) error {
	doc := logLevelChangeDocument{levelWord(level), levelWord(before)}
	return a.emit(doc, textf("%s, was %s\n", doc.Level, doc.Previous))
}

func parseLevel(name string) (rtdv1.LogLevel, error) {
	level, ok := rtdv1.LogLevel_value["LOG_LEVEL_"+strings.ToUpper(name)]
	if !ok || level == int32(rtdv1.LogLevel_LOG_LEVEL_UNSPECIFIED) {
		return 0, usagef("level %q: one of %s", name, strings.Join(logLevels, ", "))
	}
	return rtdv1.LogLevel(level), nil
}

func levelWord(level rtdv1.LogLevel) string { return word(level.String(), "LOG_LEVEL_") }
