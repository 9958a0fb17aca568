package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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

// clusterServer is a server that watches the fake API server. It trusts tagged lines from
// 127.0.0.1, as those of a node's forwarder. Lines from a pod's address belong to that pod.
type clusterServer struct {
	*server
	fakeAPIServer *fakeAPIServer
}

func (m *measurement) startInCluster(ctx context.Context, pods podSet, args ...string) (_ *clusterServer, err error) {
	c := &clusterServer{}
	if c.fakeAPIServer, err = startStandIn(pods); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-loadtest-")
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop())
	}
	kubeconfig, err := c.fakeAPIServer.writeKubeconfig(dir)
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop(), os.RemoveAll(dir))
	}
	c.server, err = m.startServerIn(ctx, dir, append([]string{"--standalone=false", "--kubeconfig", kubeconfig,
		"--trusted-forwarders", "127.0.0.1", "--external-writers", "127.0.0.1"}, args...)...)
	if err != nil {
		return nil, errors.Join(err, c.fakeAPIServer.stop())
	}
	return c, nil
}

func (c *clusterServer) stop() error { return errors.Join(c.server.stop(), c.fakeAPIServer.stop()) }

// meters are the metric families in a server's /metrics.
type meters map[string]*dto.MetricFamily

func (s *server) meters(ctx context.Context) (meters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics: %s", resp.Status)
	}
	return parseMeters(resp.Body)
}

func parseMeters(text io.Reader) (meters, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("/metrics: %w", err)
	}
	return families, nil
}

// sum adds up the counters and gauges of a name with the given labels. It is an error if there are
// none: zeros would add up.
func (m meters) sum(name string, labels map[string]string) (float64, error) {
	found, sum := false, 0.0
	for _, metric := range m[name].GetMetric() {
		if has(metric, labels) {
			found = true
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	if !found {
		return 0, fmt.Errorf("/metrics: no %s with labels %v", name, labels)
	}
	return sum, nil
}

func has(m *dto.Metric, labels map[string]string) bool {
	matching := 0
	for _, l := range m.GetLabel() {
		if want, asked := labels[l.GetName()]; asked && want == l.GetValue() {
			matching++
		}
	}
	return matching == len(labels)
}

// ledgerOf returns the server's accounting of one receiver. It leaves out drops, which only
// datagram sockets have.
func (m meters) ledgerOf(receiver string) (l ledger, err error) {
	for name, into := range map[string]*int64{
		"sluice_samples_received_total": &l.received,
		"sluice_samples_applied_total":  &l.applied,
		"sluice_samples_rejected_total": &l.rejected,
	} {
		v, err := m.sum(name, map[string]string{"receiver": receiver})
		if err != nil {
			return ledger{}, err
		}
		*into = int64(v)
	}
	return l, nil
}

// session sends prepared requests to one server over one keep-alive connection, one after the
// other. So the times are those of the server, not of a client's connection pool.
type session struct {
	conn net.Conn
	in   *bufio.Reader
	body bytes.Buffer
}

// askTimeout bounds the wait for one answer.
const askTimeout = time.Minute

func openSession(address string) (*session, error) {
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// openAPI opens a session with a server's metrics API and verifies the certificate.
func openAPI(ctx context.Context, s *server) (*session, error) {
	authority, err := os.ReadFile(filepath.Join(s.dir, "data", "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt in the data folder holds no certificate")
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool}}
	conn, err := dialer.DialContext(ctx, "tcp4", s.api)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// ask sends a request and returns the answer's status and body. The body is valid until the next
// request.
func (s *session) ask(request []byte) (int, []byte, error) {
	if err := s.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, nil, err
	}
	if _, err := s.conn.Write(request); err != nil {
		return 0, nil, err
	}
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	s.body.Reset()
	if _, err := s.body.ReadFrom(resp.Body); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, s.body.Bytes(), nil
}

// ask200 is ask, but returns an error for a status other than 200.
func (s *session) ask200(request []byte) ([]byte, error) {
	status, body, err := s.ask(request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	return body, err
}

func (s *session) close() error { return s.conn.Close() }

// apiToken is the load test's token. The fake API server accepts any.
const apiToken = "loadtest"

const (
	jsonMedia     = "application/json"
	protobufMedia = "application/vnd.kubernetes.protobuf"
)

// getRequest prepares a GET.
func getRequest(path, accept string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n\r\n",
		path, apiToken, accept)
}

// bodyRequest prepares a request with a body.
func bodyRequest(method, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method,
		path, len(body), body)
}

// closing closes c and joins the error.
func closing(c interface{ close() error }, err *error) { *err = errors.Join(*err, c.close()) }
