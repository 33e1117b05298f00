package bench

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of the peers that Peers knows.
const (
	PeerRTD     = "rtd"
	PeerHAProxy = "haproxy"
	PeerNginx   = "nginx"
)

// PeerNames are all of them, rtd first.
var PeerNames = []string{PeerRTD, PeerHAProxy, PeerNginx}

// Both proxies get their own defaults, but for what a WebSocket needs and for room for the sessions: no logs, timeouts
// that no run reaches, and everything they write in a directory of the run.

const haproxyConfig = `global
  maxconn %[3]d
defaults
  mode http
  timeout connect 10s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
frontend in
  bind %[1]s
  default_backend out
backend out
  server upstream %[2]s
`

const nginxConfig = `%[4]sdaemon off;
worker_processes auto;
pid %[3]s/nginx.pid;
error_log %[3]s/nginx-error.log;
events { worker_connections %[5]d; }
http {
  access_log off;
  client_body_temp_path %[3]s/body;
  proxy_temp_path %[3]s/proxy;
  fastcgi_temp_path %[3]s/fastcgi;
  uwsgi_temp_path %[3]s/uwsgi;
  scgi_temp_path %[3]s/scgi;
  server {
    listen %[1]s;
    location / {
      proxy_pass http://%[2]s;
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection upgrade;
      proxy_read_timeout 1h;
      proxy_send_timeout 1h;
    }
  }
}
`

// FindPeer returns the path of a proxy's program. Debian keeps them where only root looks.
func FindPeer(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path := filepath.Join(dir, name); isProgram(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: on Debian `apt-get install haproxy nginx-light` installs all peers; --peers chooses among them", name)
}

// proxy starts a peer in front of upstream, with room for so many sessions, and waits until it accepts connections.
func (r *Rig) proxy(ctx context.Context, name, program, upstream string, sessions int) (*process, Target, error) {
	up, err := url.Parse(upstream)
	if err != nil {
		return nil, Target{}, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, Target{}, err
	}
	file := filepath.Join(r.dir, name+".conf")
	var config string
	var args []string
	switch name {
	case PeerHAProxy:
		config, args = fmt.Sprintf(haproxyConfig, addr, up.Host, sessions), []string{"-db", "-f", file}
	case PeerNginx:
		user := ""
		if os.Geteuid() == 0 {
			user = "user root;\n" // else its workers drop to a user who may not open the directory of the run
		}
		config, args = fmt.Sprintf(nginxConfig, addr, up.Host, r.dir, user, 2*sessions), []string{"-c", file, "-p", r.dir, "-e", filepath.Join(r.dir, "nginx-error.log")}
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, Target{}, err
	}
	p, err := r.run(name, program, args...)
	if err != nil {
		return nil, Target{}, err
	}
	err = p.await(ctx, func(ctx context.Context) (bool, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil, err
	})
	u := &url.URL{Scheme: "ws", Host: addr, Path: up.Path, RawQuery: "model=" + rigModel}
	return p, Target{Name: name, URL: u}, err
}

// freeAddr finds a loopback address for a program that cannot be told to take a free one.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// version is the first line in which a peer says what it is.
func version(name, program string) string {
	arg := map[string]string{PeerRTD: "--version", PeerHAProxy: "-v", PeerNginx: "-v"}[name]
	out, err := exec.Command(program, arg).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.Join(strings.Fields(line), " ")
}
