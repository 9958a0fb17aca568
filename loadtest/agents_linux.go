package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"
)

// agentsScenario measures a server with many agents: what they cost, how fast a push at an agent is visible, and how
// long it takes after a kill of the server until all are back.
var agentsScenario = Scenario{
	Name:       "agents",
	About:      "5,000 agents of 75 series, a tenth of which changes each second: their cost, push to visible, all back after kill -9",
	ShortAbout: "20 agents of 75 series, a tenth of which changes each second: their cost, push to visible, all back after kill -9",
	measure:    measureAgents,
}

// agentsTimeout bounds a run: agents that never come back would end none.
const agentsTimeout = 15 * time.Minute

func measureAgents(ctx context.Context, m *measurement) (figures []Figure, err error) {
	agents, pushes, during := 5_000, 200, time.Minute
	if m.Short {
		agents, pushes, during = 20, 10, 3*time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, agentsTimeout)
	defer cancel()
	m.note("Each of the %d simulated agents has a connection and a stream of its own, and reports one pod's %d metrics every "+
		"%v. They share this machine with the server. Pushes go to a real agent, over UDP. There is no cluster, so no token is "+
		"reviewed and no address looked up.", agents, metricsPerPod, podEvery)
	addresses, err := freeTCP(3)
	if err != nil {
		return nil, err
	}
	args := []string{"--agents-address", addresses[0], "--agents-insecure=true"}
	s, err := m.startServer(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	m.step("connecting agents")
	fleet := startFleet(ctx, addresses[0], agents)
	defer fleet.stop()
	first, err := fleet.await(ctx)
	if err != nil {
		return nil, err
	}
	m.step("agents report")
	if err := rest(ctx, 2*podEvery); err != nil { // all definitions are told by then
		return nil, err
	}
	cost, err := agentsCost(ctx, s, fleet, during)
	if err != nil {
		return nil, err
	}
	m.step("pushes to an agent")
	steady, urgent, err := m.pushToAgent(ctx, s, addresses, pushes)
	if err != nil {
		return nil, err
	}
	m.step("killing the server")
	if err := s.kill(); err != nil {
		return nil, err
	}
	fleet.lost()
	again, err := m.startServerIn(ctx, s.dir, args...)
	if err != nil {
		return nil, err
	}
	s = again
	back, err := fleet.await(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	if err := fleet.audit(ctx, s); err != nil {
		return nil, err
	}
	figures = append(cost, steady.figures("push_to_visible", Aim{Most: 250})...)
	figures = append(figures, urgent.figures("urgent_to_visible", Aim{Most: 30})...)
	return append(figures, Figure{Name: "agents", Value: float64(agents)},
		Figure{Name: "connected_at_first", Unit: "s", Value: first.Seconds()},
		Figure{Name: "back_after_restart", Unit: "s", Value: back.Seconds(), Aim: Aim{Most: 10}},
		Figure{Name: "memory_idle", Unit: "MiB", Value: float64(idle.AnonBytes) / (1 << 20)},
		Figure{Name: "memory", Unit: "MiB", Value: float64(memory.AnonBytes) / (1 << 20), Aim: Aim{Most: 1536}}), nil
}

// agentsCost measures what the agents cost the server for some time.
func agentsCost(ctx context.Context, s *server, f *fleet, during time.Duration) ([]Figure, error) {
	bytes := func() (float64, error) {
		all, err := s.meters(ctx)
		if err != nil {
			return 0, err
		}
		return all.sum("sluice_received_bytes_total", map[string]string{"receiver": "agent"})
	}
	before, err := bytes()
	if err != nil {
		return nil, err
	}
	changes, began := f.changes.Load(), time.Now()
	cores, err := coresDuring(ctx, s.pid(), during)
	if err != nil {
		return nil, err
	}
	took, sent := time.Since(began).Seconds(), float64(f.changes.Load()-changes)
	after, err := bytes()
	return []Figure{{Name: "cpu", Unit: "cores", Value: cores, Aim: Aim{Most: 1}},
		{Name: "changes", Unit: "changes/s", Value: sent / took},
		{Name: "bytes_received", Unit: "B/s", Value: (after - before) / took},
		{Name: "bytes_per_change", Unit: "B", Value: (after - before) / max(sent, 1)}}, err
}

// pushToAgent pushes gauges over UDP to a real agent, and reads them from the server: of one gauge in turn, and of
// gauges that are new, which are urgent.
func (m *measurement) pushToAgent(ctx context.Context, s *server, addresses []string,
	pushes int) (steady, urgent durations, err error) {
	cmd := exec.Command(m.Binary, "agent", "--server", addresses[0], "--insecure", "--node", "probe",
		"--statsd-udp", addresses[1], "--statsd-tcp", "", "--ops-address", addresses[2], "--log-level", "warn")
	agent, err := startChild(cmd, m.processors.sender)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, agent.terminate()) }()
	real := &server{child: agent, ops: addresses[2], client: s.client}
	if err := real.awaitMeter(ctx, "the agent's connection", "sluice_agent_connected", 1); err != nil {
		return nil, nil, err
	}
	api, err := openAPI(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	defer closing(api, &err)
	datagrams, err := net.Dial("udp4", addresses[1])
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, datagrams.Close()) }()
	var known, fresh probed
	for i := 0; i < pushes && err == nil; i++ {
		value := 10*i + 1 // never ends in 0: Kubernetes would write 1000 as 1k
		for metric, probe := range map[string]*probed{"probe.steady": &known, fmt.Sprint("probe.urgent", i): &fresh} {
			if err == nil {
				err = probe.once(ctx, api, metric, value, func(value int) error {
					_, err := fmt.Fprintf(datagrams, "%s:%d|g", metric, value)
					return err
				})
			}
			if err == nil {
				err = rest(ctx, betweenAgentProbes)
			}
		}
	}
	return known.visible, fresh.visible, err
}

// betweenAgentProbes is no multiple of an agent's tenth of a second.
const betweenAgentProbes = 137 * time.Millisecond
