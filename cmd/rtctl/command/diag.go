package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtd-project/rtd/client"
	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// diagTimeout bounds the collection of everything.
const diagTimeout = 30 * time.Second

type diagDocument struct {
	File  string             `json:"file"`
	Parts []diagPartDocument `json:"parts"`
}

type diagPartDocument struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// diagPart is one file of the archive.
type diagPart struct {
	name string
	data []byte
}

func newDiag(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "diag",
		Short: "Write one archive with all that explains how rtd is doing",
		Long: `Write one archive with all that explains how rtd is doing, for whoever is to help.

It holds the documents of version, status, config show --live, stats, pool list and
session list, where the goroutines are, the heap profile, and the last 256 KiB of the
log. No credential is in it, no audio and no text of a session; addresses of clients
and names of keys are. Only who may change things may collect it.

The file is for its owner alone, and one that is there is not overwritten.`,
		Example: `  rtctl diag
  rtctl diag --file - | tar tz`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), diagTimeout)
			defer cancel()
			return writeDiag(ctx, a, file)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", `archive to write, - for standard output (default "rtd-diag-TIME.tar.gz")`)
	return cmd
}

func writeDiag(ctx context.Context, a *app, file string) error {
	now := wallClock().UTC()
	name := "rtd-diag-" + now.Format("20060102T150405Z")
	if file == "" {
		file = name + ".tar.gz"
	}
	parts, err := a.collectDiag(ctx)
	if err != nil {
		return err
	}
	if file == "-" {
		return writeArchive(a.stdout, name, now, parts)
	}
	if err := createArchive(file, name, now, parts); err != nil {
		return err
	}
	doc := diagDocument{File: file}
	t := newTable(">BYTES", "PART")
	for _, p := range parts {
		doc.Parts = append(doc.Parts, diagPartDocument{p.name, len(p.data)})
		t.add(humanCount(uint64(len(p.data))), p.name)
	}
	return a.emit(doc, textf("wrote %s\n", file), t)
}

// collectDiag asks for everything first, so that a daemon that refuses leaves no file.
func (a *app) collectDiag(ctx context.Context) ([]diagPart, error) {
	c, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	inside, err := collectInside(ctx, c)
	if err != nil {
		return nil, err
	}
	var parts []diagPart
	for _, d := range diagDocuments {
		doc, err := d.ask(ctx, c)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := writeJSON(&b, doc); err != nil {
			return nil, err
		}
		parts = append(parts, diagPart{d.name, b.Bytes()})
	}
	return append(parts, inside...), nil
}

// collectInside is what the daemon sends of its own inside.
func collectInside(ctx context.Context, c *client.Client) ([]diagPart, error) {
	var parts []diagPart
	for piece, err := range c.Diagnostics(ctx) {
		if err != nil {
			return nil, err
		}
		if n := len(parts); n == 0 || parts[n-1].name != piece.GetName() {
			parts = append(parts, diagPart{name: piece.GetName()})
		}
		last := &parts[len(parts)-1]
		last.data = append(last.data, piece.GetData()...)
	}
	return parts, nil
}

// diagDocuments are the documents of other commands, and how each is asked for.
var diagDocuments = []struct {
	name string
	ask  func(context.Context, *client.Client) (any, error)
}{
	{"version.json", func(ctx context.Context, c *client.Client) (any, error) {
		i, err := c.Info(ctx)
		return versionsDocument{readBuild(), &versionDocument{i.GetVersion(), i.GetCommit(), i.GetGoVersion()}}, err
	}},
	{"status.json", func(ctx context.Context, c *client.Client) (any, error) {
		i, err := c.Info(ctx)
		return documentStatus(i), err
	}},
	{"config.json", func(ctx context.Context, c *client.Client) (any, error) {
		res, err := c.Config(ctx)
		return documentConfig(res), err
	}},
	{"stats.json", func(ctx context.Context, c *client.Client) (any, error) {
		s, err := c.Stats(ctx)
		return documentStats(s), err
	}},
	{"pools.json", func(ctx context.Context, c *client.Client) (any, error) {
		pools, err := c.Pools(ctx)
		return poolsDocument{documentPools(pools)}, err
	}},
	{"sessions.json", func(ctx context.Context, c *client.Client) (any, error) {
		sessions, err := allSessions(ctx, c, "", rtdv1.SessionView_SESSION_VIEW_FULL)
		return documentSessions(sessions), err
	}},
}

// createArchive writes a file that was not there; with an error it is not there either.
func createArchive(file, name string, now time.Time, parts []diagPart) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s is there already: name another with --file", file)
	case err != nil:
		return err
	}
	if err := errors.Join(writeArchive(f, name, now, parts), f.Close()); err != nil {
		_ = os.Remove(file)
		return err
	}
	return nil
}

func writeArchive(w io.Writer, dir string, now time.Time, parts []diagPart) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, p := range parts {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + p.name, Mode: 0o600, Size: int64(len(p.data)), ModTime: now, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(p.data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}
