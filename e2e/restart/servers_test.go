package restart

import (
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// pair is two replicas that hear agents, each at an address that can be cut.
type pair struct {
	t       *testing.T
	servers []*server.Server
	links   []*link
	agents  []*server.Agent
	rounds  int64
	took    float64
}

func newPair(t *testing.T, agents int, flags ...string) *pair {
	t.Helper()
	p := &pair{t: t}
	var addresses []string
	for _, replica := range server.ReplicaFlags(t, 2) {
		s := server.New(t, append(append([]string{"--windows", "10s,1m,1h", "--sync-interval", "3s"}, replica...), flags...)...)
		s.WithAgents()
		p.servers = append(p.servers, s)
		p.links = append(p.links, newLink(t, s.AgentsAddress()))
		addresses = append(addresses, p.links[len(p.links)-1].address)
	}
	for i := range agents {
		p.agents = append(p.agents, p.servers[0].NewAgentAt(fmt.Sprint("node-", i), addresses...))
	}
	for _, s := range p.servers {
		s.Start()
	}
	for _, a := range p.agents {
		a.Start()
		p.connected(a)
	}
	return p
}

// connected waits until a server hears an agent.
func (p *pair) connected(a *server.Agent) {
	p.t.Helper()
	server.Eventually(p.t, func() string {
		if m, err := a.Metrics(); err != nil || m["sluice_agent_connected"] != 1 {
			return fmt.Sprintf("the agent has no connection (%v)", err)
		}
		return ""
	})
}

// connections is the number of connections that an agent had so far.
func connections(t *testing.T, a *server.Agent) float64 {
	t.Helper()
	m, err := a.Metrics()
	must(t, err)
	return m["sluice_agent_connections_total"]
}

// of returns the index of the server that hears the first agent: that of its last connection.
func (p *pair) of() int {
	p.t.Helper()
	p.connected(p.agents[0])
	number, named := strings.CutPrefix(p.agents[0].Hearer(), "sluice-")
	if !named {
		p.t.Fatalf("the agent does not say which server hears it:\n%s", p.agents[0].Said())
	}
	return int(number[0] - '0')
}

// under runs a fault under the load of all agents. Once it is over, and all is quiet, each sample counts once at both servers.
func (p *pair) under(name string, fault func()) {
	p.t.Helper()
	var loads []*everyKind
	for _, a := range p.agents {
		loads = append(loads, pushEveryKind(p.t, a.UDP))
	}
	time.Sleep(1500 * time.Millisecond)
	fault()
	time.Sleep(time.Second)
	for _, load := range loads {
		rounds := load.stop()
		p.rounds += rounds
		p.took += tookSum(rounds)
	}
	p.quiet(name)
}

// quiet waits until nothing is under way, and compares the values of both servers with what was pushed.
func (p *pair) quiet(name string) {
	p.t.Helper()
	for _, a := range p.agents {
		held(p.t, a)
	}
	p.compare(name)
}

func (p *pair) compare(name string) {
	p.t.Helper()
	for i, s := range p.servers {
		for metric, want := range map[string]float64{"jobs:total": float64(p.rounds), "parts:total": float64(p.rounds) / 4,
			"took:count:1h": float64(p.rounds), "open": float64(p.rounds)} {
			got := math.NaN()
			for deadline := time.Now().Add(server.Patience); got != want && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				got = s.Sum(metric)
			}
			if got != want {
				p.t.Errorf("%s: %s is %v at server %d, want %v", name, metric, got, i, want)
			}
		}
		for metric, want := range map[string]float64{"users:unique:1h": float64(min(p.rounds, 500)), "took:sum:1h": p.took} {
			if got := s.Sum(metric); math.Abs(got-want) > want*0.03 {
				p.t.Errorf("%s: %s is %v at server %d, want %v within 3 %%", name, metric, got, i, want)
			}
		}
	}
}

// moves waits until the first agent has another connection than before a fault.
func (p *pair) moves(before float64) {
	p.t.Helper()
	server.Eventually(p.t, func() string {
		if connections(p.t, p.agents[0]) == before {
			return "the agent does not move"
		}
		return ""
	})
}

// Agents of two servers lose nothing and count nothing twice, whatever becomes of the servers and of the way to them.
func TestAgentsOfTwoServers(t *testing.T) {
	for _, agents := range []int{1, 3} {
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, agents)
			p.under("nothing happens", func() {})
			for i := range 2 {
				p.under("a server is killed", func() {
					at, before := p.of(), connections(t, p.agents[0])
					p.servers[at].Kill()
					p.moves(before)
					time.Sleep(time.Duration(i) * 3 * time.Second)
					p.servers[at].Start()
				})
			}
			p.under("a server is frozen", func() {
				at, before := p.of(), connections(t, p.agents[0])
				p.servers[at].Freeze()
				p.moves(before)
				time.Sleep(3 * time.Second)
				p.servers[at].Continue()
			})
			p.under("a server ends", func() {
				at, before := p.of(), connections(t, p.agents[0])
				p.servers[at].Stop()
				p.moves(before)
				time.Sleep(time.Second)
				p.servers[at].Start()
			})
			p.under("both are killed", func() {
				for _, s := range p.servers {
					s.Kill()
				}
				time.Sleep(2 * time.Second)
				for _, s := range p.servers {
					s.Launch()
				}
				for _, s := range p.servers {
					s.AwaitReady()
				}
			})
			p.under("the way to a server is cut", func() {
				at, before := p.of(), connections(t, p.agents[0])
				p.links[at].cut(true)
				p.moves(before)
				time.Sleep(2 * time.Second)
				p.links[at].cut(false)
			})
			for _, a := range p.agents {
				a.Stop()
			}
			p.compare("the agents have ended")
		})
	}
}

// A server that lost its disk under an agent comes back as another one: what it had published counts once, at both servers, and what it had
// not goes to any.
func TestAgentsOfAServerThatLostItsDisk(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1, "--sync-interval", "30s")
	load := pushEveryKind(t, p.agents[0].UDP)
	time.Sleep(2 * time.Second)
	p.rounds = load.stop()
	p.took = tookSum(p.rounds)
	time.Sleep(3 * time.Second) // the agent has heard that it is published
	if m, err := p.agents[0].Metrics(); err != nil || m["sluice_agent_samples_held"] == 0 {
		t.Logf("everything is acknowledged already, so the test says little (%v)", err)
	}
	lost := p.servers[p.of()]
	lost.Kill()
	server.Eventually(t, func() string { // the storage process ends a moment later
		if err := os.RemoveAll(lost.DataDir()); err != nil {
			return err.Error()
		}
		return ""
	})
	lost.Start()
	p.quiet("its disk is lost")
	p.under("it is back", func() {
		at, before := p.of(), connections(t, p.agents[0])
		p.servers[at].Kill()
		p.moves(before)
		p.servers[at].Start()
	})
}

// link is a way to a server that can be cut: then it carries nothing, and ends no connection.
type link struct {
	address string
	mu      sync.Mutex
	whole   sync.Cond
	isCut   bool
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	address := server.FreeAddress(t, "tcp")
	listener, err := net.Listen("tcp", address)
	must(t, err)
	l := &link{address: address}
	l.whole.L = &l.mu
	t.Cleanup(func() {
		listener.Close()
		l.cut(false)
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go l.connect(from, to)
		}
	}()
	return l
}

func (l *link) cut(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = is
	l.whole.Broadcast()
}

func (l *link) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.isCut {
		l.whole.Wait()
	}
}

func (l *link) connect(from net.Conn, address string) {
	defer from.Close()
	l.wait()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go l.carry(from, to)
	l.carry(to, from)
}

// carry carries what one end says to the other one, until either ends.
func (l *link) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		l.wait()
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
