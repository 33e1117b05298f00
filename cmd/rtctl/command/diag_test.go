package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (f *fake) CollectDiagnostics(_ *rtdv1.CollectDiagnosticsRequest, stream grpc.ServerStreamingServer[rtdv1.CollectDiagnosticsResponse]) error {
	if f.faults != "" {
		return status.Error(codes.PermissionDenied, f.faults)
	}
	for _, piece := range []struct{ name, data string }{
		{"goroutines.txt", "goroutine profile: total 1\n"}, {"heap.pb.gz", "a heap"}, {"log.txt", "one\n"}, {"log.txt", "two\n"},
	} {
		if err := stream.Send(&rtdv1.CollectDiagnosticsResponse{Name: piece.name, Data: []byte(piece.data)}); err != nil {
			return err
		}
	}
	return nil
}

// unpack returns the files of an archive by their names below its one directory.
func unpack(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		dir, name, _ := strings.Cut(header.Name, "/")
		if dir != "rtd-diag-20261130T120000Z" || !header.ModTime.Equal(noon) || header.Mode != 0o600 {
			t.Errorf("the header is %+v", header)
		}
		files[name] = string(data)
	}
}

func TestDiagScreens(t *testing.T) {
	wallClock = func() time.Time { return noon }
	t.Cleanup(func() { wallClock = time.Now })
	refusing := newFake(warmPool())
	refusing.faults = "uid 65534 may only read; ask for membership in the admin uids [0] or gids []"
	goldenIn(t, t.TempDir(), "diag.txt", serve(t, newFake(warmPool())))
	dir := t.TempDir()
	goldenIn(t, dir, "diag-refused.txt", serve(t, refusing))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a refusal left %v: %v", left, err)
	}
}

// goldenIn is golden with the command lines run in dir.
func goldenIn(t *testing.T, dir, name string, f *fake) {
	t.Helper()
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "testdata", name)
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	golden(t, name, f)
	t.Chdir(home)
	if *update {
		if text, err = os.ReadFile(copied); err == nil {
			err = os.WriteFile(filepath.Join("testdata", name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
}

func TestDiagArchive(t *testing.T) {
	wallClock = func() time.Time { return noon }
	t.Cleanup(func() { wallClock = time.Now })
	f := serve(t, newFake(warmPool()))
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), []string{"--endpoint", f.socket, "diag", "--file", "-"}, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	files := unpack(t, &stdout)
	if files["log.txt"] != "one\ntwo\n" || files["heap.pb.gz"] != "a heap" || files["goroutines.txt"] == "" || len(files) != 9 {
		t.Errorf("the archive holds %q", files)
	}
	// The documents are those of the commands.
	for name, line := range map[string]string{
		"version.json": "version", "status.json": "status", "config.json": "config show --live",
		"stats.json": "stats", "pools.json": "pool list", "sessions.json": "session list",
	} {
		var out bytes.Buffer
		if status := execute(t.Context(), append([]string{"--endpoint", f.socket, "-o", "json"}, split(line)...), &out, &stderr); status != 0 {
			t.Fatalf("%s: %s", line, &stderr)
		}
		if files[name] != out.String() || !json.Valid(out.Bytes()) {
			t.Errorf("%s is not what %s says: %s", name, line, files[name])
		}
	}
}

func TestDiagFileIsForItsOwnerAlone(t *testing.T) {
	f := serve(t, newFake(warmPool()))
	file := filepath.Join(t.TempDir(), "d.tar.gz")
	var out bytes.Buffer
	if status := execute(t.Context(), []string{"--endpoint", f.socket, "diag", "-f", file}, &out, &out); status != 0 {
		t.Fatalf("status %d: %s", status, &out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
