package server

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/child"
)

// Agent is "sluice agent" as a process.
type Agent struct {
	UDP, TCP, Unixgram, Unix, HTTP string // all but UDP with Streams alone

	t      *testing.T
	server *Server
	ops    string
	args   []string
	child  *child.Process
	mu     sync.Mutex
	stderr bytes.Buffer
}

// WithAgents makes the server serve agents.
func (s *Server) WithAgents() {
	s.agents = at(s.t, "127.0.0.1", "tcp")
	s.Add("--agents-address", s.agents, "--agents-insecure")
}

// WithSecureAgents makes a server in a cluster serve agents of a service account.
func (s *Server) WithSecureAgents(certificate, key, account string) {
	s.agents = at(s.t, "127.0.0.1", "tcp")
	s.Add("--agents-address", s.agents, "--agents-tls-cert-file", certificate, "--agents-tls-key-file", key, "--agents-accounts", account)
}

// NewAgent prepares an agent of a server WithAgents.
func (s *Server) NewAgent(node string) *Agent { return s.newAgent("--insecure", "--node", node) }

// NewAgentAt prepares an agent of several servers WithAgents, at addresses that lead to them.
func (s *Server) NewAgentAt(node string, addresses ...string) *Agent {
	return s.newAgent("--insecure", "--node", node, "--server", strings.Join(addresses, ","))
}

// AgentsAddress is where a server WithAgents hears agents.
func (s *Server) AgentsAddress() string { return s.agents }

// NewSecureAgent prepares an agent of servers WithSecureAgents: of this one, and of others.
func (s *Server) NewSecureAgent(authorities, token string, others ...*Server) *Agent {
	addresses := []string{s.agents}
	for _, other := range others {
		addresses = append(addresses, other.agents)
	}
	return s.newAgent("--server-ca-file", authorities, "--token-file", token, "--server", strings.Join(addresses, ","))
}

var connected = regexp.MustCompile(`msg=connected .*name=(\S+)`)

// Hearer is the name of the replica that hears the agent, or did last.
func (a *Agent) Hearer() string {
	all := connected.FindAllStringSubmatch(a.Said(), -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

func (s *Server) newAgent(flags ...string) *Agent {
	a := &Agent{t: s.t, server: s, UDP: at(s.t, "127.0.0.1", "udp"), ops: at(s.t, "127.0.0.1", "tcp")}
	a.args = append([]string{"agent", "--server", s.agents, "--statsd-udp", a.UDP, "--statsd-tcp", "", "--ops-address", a.ops}, flags...)
	s.t.Cleanup(func() {
		if a.child != nil {
			a.child.Kill()
		}
		if s.t.Failed() {
			s.t.Logf("the agent said:\n%s", a.Said())
		}
	})
	return a
}

// Write implements io.Writer for the process's log.
func (a *Agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stderr.Write(p)
}

// Said is the log of the agent so far.
func (a *Agent) Said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stderr.String()
}

// Start starts the agent and waits until it receives.
func (a *Agent) Start() {
	a.t.Helper()
	cmd := exec.Command(a.server.Binary(), a.args...)
	cmd.Stderr = a
	var err error
	a.child, err = child.Start(cmd)
	must(a.t, err)
	Eventually(a.t, func() string {
		if _, err := a.Metrics(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Metrics reads the agent's metrics.
func (a *Agent) Metrics() (Metrics, error) { return readMetrics("http://" + a.ops + "/metrics") }

// Streams makes the agent receive over TCP and HTTP, too, and from Unix sockets in a folder, from its next start on.
func (a *Agent) Streams(folder string) {
	a.TCP, a.Unixgram, a.Unix = at(a.t, "127.0.0.1", "tcp"), filepath.Join(folder, "d.sock"), filepath.Join(folder, "s.sock")
	a.HTTP = at(a.t, "127.0.0.1", "tcp")
	a.Add("--statsd-tcp", a.TCP, "--statsd-unixgram", a.Unixgram, "--statsd-unix", a.Unix, "--http-address", a.HTTP)
}

// Ready reports whether the agent's readiness probe passes.
func (a *Agent) Ready() bool {
	answer, err := http.Get("http://" + a.ops + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Terminate tells the agent to end, as an update does.
func (a *Agent) Terminate() { _ = a.child.Signal(syscall.SIGTERM) }

// Ended is closed once the agent has ended.
func (a *Agent) Ended() <-chan struct{} { return a.child.Done() }

// Stop ends the agent as an update does, and waits for its end.
func (a *Agent) Stop() {
	a.t.Helper()
	a.Terminate()
	select {
	case <-a.child.Done():
	case <-time.After(Patience):
		a.t.Fatal("the agent does not stop")
	}
}

// Kill kills the agent.
func (a *Agent) Kill() { a.child.Kill() }

// Add adds flags, for the next start.
func (a *Agent) Add(flags ...string) { a.args = append(a.args, flags...) }
