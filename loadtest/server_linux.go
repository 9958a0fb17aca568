package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// server is the server under test, on free ports of the loopback interface, with a data folder of
// its own.
type server struct {
	*child
	udp            netip.AddrPort
	http, api, ops string // host:port
	dir            string
	client         *http.Client
	knownValue     int64 // last value of watchKnown's gauge
}

// startTimeout bounds the start of a server until it is ready.
const startTimeout = 60 * time.Second

// startServer starts the server on a processor of its own. args follow the usual arguments and
// override them.
func (m *measurement) startServer(ctx context.Context, args ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "sluice-loadtest-")
	if err != nil {
		return nil, err
	}
	return m.startServerIn(ctx, dir, args...)
}

// startServerIn is startServer in a folder that another server may have left. stop removes the
// folder, terminate does not.
func (m *measurement) startServerIn(ctx context.Context, dir string, args ...string) (_ *server, err error) {
	s := &server{dir: dir, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abandon())
		}
	}()
	m.step("starting the server")
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	s.udp, s.http, s.api, s.ops = ports.udp, ports.http, ports.api, ports.ops
	cmd := exec.Command(m.Binary, append([]string{"serve", "--standalone", "--data-dir", filepath.Join(s.dir, "data"),
		"--statsd-udp", s.udp.String(), "--statsd-tcp", "", "--http-address", s.http,
		"--api-address", s.api, "--ops-address", s.ops, "--log-level", "warn"}, args...)...)
	if m.processors.pinned() {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	if s.child, err = startChild(cmd, m.processors.server); err != nil {
		return nil, err
	}
	return s, s.await(ctx, "readiness", startTimeout, func() (bool, error) { return s.ready(ctx) })
}

func (s *server) ready(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/readyz", nil)
	if err != nil {
		return false, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false, err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("/readyz: %s", resp.Status)
	}
	return true, nil
}

// stop ends the server and removes the data folder.
func (s *server) stop() error {
	s.client.CloseIdleConnections()
	return errors.Join(s.terminate(), os.RemoveAll(s.dir))
}

// abandon is stop for a server that was never ready. The exit code is ignored.
func (s *server) abandon() error {
	s.client.CloseIdleConnections()
	if s.child != nil {
		_ = s.terminate()
	}
	return os.RemoveAll(s.dir)
}

type ports struct {
	udp            netip.AddrPort
	http, api, ops string
}

// freePorts asks the kernel for ports and releases them. Another process could take one first; the
// server then reports the conflict and exits.
func freePorts() (p ports, err error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return ports{}, err
	}
	defer conn.Close()
	p.udp = loopback(conn.LocalAddr().(*net.UDPAddr).Port)
	tcp, err := freeTCP(3)
	if err != nil {
		return ports{}, err
	}
	p.http, p.api, p.ops = tcp[0], tcp[1], tcp[2]
	return p, nil
}

// freeTCP is freePorts for n addresses of TCP.
func freeTCP(n int) (addresses []string, err error) {
	for range n {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // close all listeners at the end, so that the ports differ
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

func loopback(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}
