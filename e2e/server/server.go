package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/loopback"
)

// build builds the binary once per test process, unless SLUICE_BINARY names one.
var build = sync.OnceValues(func() (string, error) {
	if binary := os.Getenv("SLUICE_BINARY"); binary != "" {
		return filepath.Abs(binary)
	}
	binary := filepath.Join(os.TempDir(), fmt.Sprintf("sluice-e2e-%d", os.Getpid()))
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/sluice")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

// Remove deletes the binary that build made. A TestMain calls Remove last.
func Remove() {
	if binary, err := build(); err == nil && os.Getenv("SLUICE_BINARY") == "" {
		_ = os.Remove(binary)
	}
}

// Server is one sluice with a data folder and ports. It may be stopped and started again with the
// same folder and ports.
type Server struct {
	t      *testing.T
	dir    string
	args   []string
	binary string         // empty: the binary that build makes
	env    []string       // in addition to the test's environment
	child  *child.Process // nil: no server is running
	stderr *bytes.Buffer  // of the last start; read only after the server's end

	UDP, TCP, HTTP, API, Ops string // host:port
	Unixgram, Unix           string // paths
	Console                  string // host:port; empty: off
	OTLPGRPC, OTLPHTTP       string // host:port; empty: off
	agents                   string // host:port; empty: off
}

// New prepares a standalone server on free ports with folders of its own. Start starts the server;
// the end of the test ends it.
func New(t *testing.T, flags ...string) *Server {
	t.Helper()
	return NewAt(t, "127.0.0.1", flags...)
}

// NewAt is New for a server with another address than loopback.
func NewAt(t *testing.T, host string, flags ...string) *Server {
	t.Helper()
	return prepare(t, host, append([]string{"--standalone"}, flags...))
}

// InCluster is New for a server that watches a cluster with the rights of a kubeconfig.
func InCluster(t *testing.T, kubeconfig string, flags ...string) *Server {
	t.Helper()
	return prepare(t, "127.0.0.1", append([]string{"--kubeconfig", kubeconfig}, flags...))
}

func prepare(t *testing.T, host string, flags []string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") // short: a socket's path has at most 107 bytes
	must(t, err)
	s := &Server{
		t: t, dir: dir,
		UDP: at(t, host, "udp"), TCP: at(t, host, "tcp"), HTTP: at(t, host, "tcp"),
		API: at(t, host, "tcp"), Ops: at(t, host, "tcp"),
		Unixgram: filepath.Join(dir, "gram"), Unix: filepath.Join(dir, "stream"),
	}
	s.args = append([]string{
		"serve", "--data-dir", s.DataDir(),
		"--statsd-udp", s.UDP, "--statsd-tcp", s.TCP, "--statsd-unixgram", s.Unixgram, "--statsd-unix", s.Unix,
		"--http-address", s.HTTP, "--api-address", s.API, "--ops-address", s.Ops,
		"--console-address", "", "--otlp-grpc-address", "", "--otlp-http-address", "", // the chart's are the same for all
	}, flags...)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() && s.stderr != nil {
			fmt.Fprintf(os.Stderr, "%s: sluice said\n%s", t.Name(), s.stderr) // at once, so that the failure stands below
		}
		if err := remove(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// remove deletes a folder. The storage process ends a moment after the server and may have made a
// file meanwhile.
func remove(dir string) (err error) {
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

// DataDir returns the path of the server's data folder.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data") }

// Binary returns the path of the binary.
func (s *Server) Binary() string {
	s.t.Helper()
	if s.binary != "" {
		return s.binary
	}
	binary, err := build()
	must(s.t, err)
	return binary
}

// FreeAddress returns an address of loopback with a port that nothing listens at.
func FreeAddress(t *testing.T, network string) string {
	t.Helper()
	address, err := loopback.Free(network)
	must(t, err)
	return address
}

// at returns an address of a host with a port that is free on loopback.
func at(t *testing.T, host, network string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(t, network))
	must(t, err)
	return net.JoinHostPort(host, port)
}

// Runs makes Start run another binary with additional environment variables.
func (s *Server) Runs(binary string, env ...string) { s.binary, s.env = binary, env }

// Add adds flags to those of the next start. Of two values of one flag the later one counts.
func (s *Server) Add(flags ...string) { s.args = append(s.args, flags...) }

// Drop takes the flags back that were added last, from the next start on.
func (s *Server) Drop(flags ...string) { s.args = s.args[:len(s.args)-len(flags)] }

// WithOTLP makes Start open the ports of OpenTelemetry.
func (s *Server) WithOTLP() {
	s.OTLPGRPC, s.OTLPHTTP = at(s.t, "127.0.0.1", "tcp"), at(s.t, "127.0.0.1", "tcp")
	s.args = append(s.args, "--otlp-grpc-address", s.OTLPGRPC, "--otlp-http-address", s.OTLPHTTP)
}

// WithConsole makes Start open the console, on loopback.
func (s *Server) WithConsole() { s.WithConsoleAt("127.0.0.1") }

// WithConsoleAt makes Start open the console at an address of this machine.
func (s *Server) WithConsoleAt(host string) {
	s.Console = at(s.t, host, "tcp")
	s.args = append(s.args, "--console-address", s.Console)
}

// Start runs the binary and waits until it is ready.
func (s *Server) Start() {
	s.t.Helper()
	must(s.t, s.TryStart())
}

// TryStart is Start for a server that may fail. The error holds the server's log.
func (s *Server) TryStart() error {
	s.t.Helper()
	s.Launch()
	return s.awaitReady()
}

// Launch runs the binary and does not wait.
func (s *Server) Launch() {
	s.t.Helper()
	cmd := exec.Command(s.Binary(), s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	s.stderr = new(bytes.Buffer)
	cmd.Stderr = s.stderr
	started, err := child.Start(cmd)
	must(s.t, err)
	s.child = started
}

// PID returns the process ID of the running server.
func (s *Server) PID() int { return s.child.ID() }

// Children returns the process IDs of the children of the server, on Linux.
func (s *Server) Children() (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		after := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // proc(5): state, then the parent
		if len(after) > 1 && string(after[1]) == strconv.Itoa(s.PID()) && string(after[0]) != "Z" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children = append(children, pid)
		}
	}
	return children
}

// AwaitReady waits until a launched server is ready.
func (s *Server) AwaitReady() {
	s.t.Helper()
	must(s.t, s.awaitReady())
}

func (s *Server) awaitReady() error {
	for deadline := time.Now().Add(Patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + s.Ops + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.child.Done():
			return fmt.Errorf("sluice ended before it was ready: %w\n%s", s.child.Err(), s.stderr)
		default:
		}
		if time.Now().After(deadline) {
			s.Kill() // before, the server may still write to s.stderr
			return fmt.Errorf("sluice is not ready after %s\n%s", Patience, s.stderr)
		}
	}
}

// Said returns the standard error since the last start; valid after the server's end.
func (s *Server) Said() string { return s.stderr.String() }

// Freeze stops the process until Continue: it answers nothing, and its connections stay.
func (s *Server) Freeze() {
	s.t.Helper()
	must(s.t, s.child.Signal(syscall.SIGSTOP))
}

// Continue ends Freeze.
func (s *Server) Continue() {
	s.t.Helper()
	must(s.t, s.child.Signal(syscall.SIGCONT))
}

// Stop sends SIGTERM and requires a clean end.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("sluice did not stop well: %v\n%s", err, s.stderr)
	}
}

// Kill sends SIGKILL.
func (s *Server) Kill() { _ = s.signal(syscall.SIGKILL) }

func (s *Server) signal(signal os.Signal) error {
	running := s.child
	if running == nil {
		return nil
	}
	s.child = nil
	if err := running.Signal(signal); err != nil {
		return err
	}
	select {
	case <-running.Done():
		return running.Err()
	case <-time.After(Patience):
		running.Kill()
		return fmt.Errorf("it was still running %s after %v", Patience, signal)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
