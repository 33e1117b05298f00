package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rtd-project/rtd/internal/wiretest"
)

// Whoever gets an archive of a daemon learns none of the secrets that the daemon knows or was told, wherever they came from.
func TestCaseI1NoSecretIsInTheDiagnostics(t *testing.T) {
	const (
		upstreamKey = "opaque-upstream-key"
		clientKey   = "opaque-client-key"
		hashedKey   = "opaque-hashed-key"
		tokenSecret = "opaque-token-secret-of-32-bytes-or-more"
		wrongKey    = "opaque-wrong-key"
		queryKey    = "sk-test-QUERY"
	)
	var dials atomic.Int64
	up := wiretest.NewUpstream(t, func(c *wiretest.UpstreamConn) {
		if dials.Add(1) <= 2 {
			wiretest.Ready(c)
			return
		}
		event := `{"type":"error","error":{"code":"invalid_api_key","message":"bad key ` + upstreamKey + `"}}`
		c.SendString(wiretest.Switching(c.ReadRequest()) + string(c.Frame(true, wiretest.Text, []byte(event))))
		_, _ = c.TryReadFrame()
	})
	dir := t.TempDir()
	digest := sha256.Sum256([]byte(hashedKey))
	path := filepath.Join(dir, "rtd.yaml")
	write(t, filepath.Join(dir, "key"), upstreamKey)
	write(t, path, fmt.Sprintf(`upstreams:
  - {name: up, provider: compatible, url: "%s", api_key_file: %s}
routes:
  - models: [mock]
    pool: {size: 3}
clients:
  keys:
    - {name: web, key_env: CLIENT_KEY}
    - {name: hashed, sha256: "%x"}
  tokens: {secret_env: TOKEN_SECRET}
log: {level: trace}
`, up.URL(), filepath.Join(dir, "key"), digest))
	p := startProcess(t, []string{"CLIENT_KEY=" + clientKey, "TOKEN_SECRET=" + tokenSecret}, "--config", path)

	connect := func(credential string) *wiretest.Client {
		c := wiretest.Dial(t, p.listen)
		c.SendString(wiretest.HSWith("", "Authorization: Bearer "+credential))
		return c
	}
	token, _ := expect(t, p.rtctl("token", "mint", "--key", "web", "--model", "mock"), 0)
	token = strings.TrimSpace(token)
	for _, credential := range []string{clientKey, token} {
		c := connect(credential)
		c.Expect101()
		c.ExpectText(wiretest.SessionCreated)
	}
	if _, err := connect(wrongKey).TryReadHead(); err != nil {
		t.Fatal(err)
	}
	c := wiretest.Dial(t, p.listen)
	c.SendString(wiretest.HSWith("/v1/realtime?model=mock&api_key="+queryKey, "Authorization: Bearer "+clientKey))
	if _, err := c.TryReadHead(); err != nil {
		t.Fatal(err)
	}
	p.awaitLog("upstream dial failed", 1)

	file := filepath.Join(dir, "d.tar.gz")
	expect(t, p.rtctl("diag", "--file", file), 0)
	parts := archived(t, file)
	for name, text := range parts {
		for _, secret := range []string{upstreamKey, clientKey, hashedKey, tokenSecret, wrongKey, queryKey, token, hex.EncodeToString(digest[:])} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s:\n%s", name, secret, text)
			}
		}
	}
	expectParts(t, parts, path)
}

// expectParts makes sure that the archive had something to hide.
func expectParts(t *testing.T, parts map[string]string, path string) {
	t.Helper()
	for name, want := range map[string]string{
		"version.json": "go_version", "status.json": "serving", "config.json": path + ":8:", "stats.json": `"hit"`, "pools.json": "[redacted]",
		"sessions.json": `"key_name": "web"`, "goroutines.txt": "daemon.(*Daemon).Run", "heap.pb.gz": "inuse_space", "log.txt": "[redacted]",
	} {
		if !strings.Contains(parts[name], want) {
			t.Errorf("%s does not hold %q:\n%s", name, want, parts[name])
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(parts[name])) {
			t.Errorf("%s is no JSON", name)
		}
	}
	if len(parts) != 9 {
		t.Errorf("%d parts", len(parts))
	}
}

// archived are the files of an archive, those that are compressed once more unpacked.
func archived(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, ".gz") {
			inner, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if data, err = io.ReadAll(inner); err != nil {
				t.Fatal(err)
			}
		}
		parts[filepath.Base(header.Name)] = string(data)
	}
}

// Another user gets nothing, not even a file.
func TestDiagnosticsAreForAdmins(t *testing.T) {
	up := wiretest.NewUpstream(t, wiretest.Ready)
	path := filepath.Join(openDir(t), "s")
	p := startAt(t, path, nil, upstreamArgs(up, "--pool-size", "0")...)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := expect(t, asNobody(t, p.rtctl("diag", "--file", "-")), 1)
	if stdout != "" || !strings.Contains(stderr, "uid 65534 may only read") {
		t.Errorf("nobody is told %q, %q", stdout, stderr)
	}
}
