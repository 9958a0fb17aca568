package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// peerServer is a running peer. The datagrams that the kernel dropped are the only known losses.
type peerServer struct {
	*child
	udp netip.AddrPort
	dir string
}

// peerGrace is the wait after a peer has opened the socket.
const peerGrace = time.Second

// startPeer fills in the placeholders, starts the command, and waits until the socket is open.
func (m *measurement) startPeer(ctx context.Context) (_ *peerServer, err error) {
	m.step("starting the peer")
	t := &peerServer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	if t.dir, err = os.MkdirTemp("", "sluice-loadtest-"); err != nil {
		return nil, err
	}
	fill, err := t.placeholders()
	if err != nil {
		return nil, err
	}
	if m.peer.Config != "" {
		if err := os.WriteFile(t.configFile(), []byte(fill.Replace(m.peer.Config)), 0o600); err != nil {
			return nil, err
		}
	}
	var words []string
	for _, word := range m.peer.Command {
		words = append(words, fill.Replace(word))
	}
	cmd := exec.Command(words[0], words[1:]...)
	if m.processors.pinned() {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	if t.child, err = startChild(cmd, m.processors.server); err != nil {
		return nil, err
	}
	err = t.await(ctx, "UDP socket", startTimeout, func() (bool, error) {
		_, err := readQueue(t.udp)
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.peer.Name, err)
	}
	if err := rest(ctx, peerGrace); err != nil {
		return nil, err
	}
	return t, t.alive()
}

func (t *peerServer) configFile() string { return filepath.Join(t.dir, "config") }

func (t *peerServer) placeholders() (*strings.Replacer, error) {
	free, err := freePorts()
	if err != nil {
		return nil, err
	}
	t.udp = free.udp
	_, tcp, err := net.SplitHostPort(free.http)
	if err != nil {
		return nil, err
	}
	return strings.NewReplacer("{udp}", fmt.Sprint(t.udp.Port()), "{tcp}", tcp, "{config}", t.configFile()), nil
}

// stop ends the peer. The exit code is ignored.
func (t *peerServer) stop() error {
	if t.child != nil {
		_ = t.terminate()
	}
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}

func (m *measurement) peerSubject(t *peerServer) subject {
	m.note("The peer reports no accounting: taken is sent less the datagrams that the kernel dropped. " +
		"Later losses are unknown.")
	return subject{
		child: t.child, what: "peer", udp: t.udp, foreign: true,
		warmUpLines: m.scenario.series.size(), warmUpRate: singleWarmUpRate,
	}
}

// measurePeer is measureServer for a peer.
func (m *measurement) measurePeer(ctx context.Context) (run Run, err error) {
	t, err := m.startPeer(ctx)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if run.Idle, err = readMemory(t.pid()); err != nil {
		return Run{}, err
	}
	sent, taken, err := m.applyLoad(ctx, m.peerSubject(t))
	if err != nil {
		return Run{}, err
	}
	if run.Memory, err = readMemory(t.pid()); err != nil {
		return Run{}, err
	}
	least, most := sent.load.lost(taken.DroppedDatagrams)
	if least != most {
		m.note("Dropped datagrams had different numbers of lines: the most possible are counted as lost.")
	}
	if taken.Taken = taken.Sent - most; taken.Taken <= 0 {
		return Run{}, nothingTaken("peer", taken)
	}
	run.Server = taken
	return run, nil
}

// comparison measures servers under one load in turn: in each run Sluice, then each peer, then the
// floors.
type comparison struct {
	sluice *measurement
	peers  []*measurement
	faults []error // of peers
}

func newComparison(cfg Config, load scenarioAtRate, cpus processors, machine *Machine) *comparison {
	c := &comparison{sluice: newMeasurement(cfg, load, cpus, machine)}
	for _, p := range cfg.Peers {
		if p.takes(load.Name) {
			c.peers = append(c.peers, c.sluice.with(p))
		}
	}
	return c
}

// all performs all runs. A peer that fails has no result, and the others go on without it. If
// Sluice or a floor fails, there is no result.
func (c *comparison) all(ctx context.Context) (results []*Result, err error) {
	runs := c.sluice.Runs
	for i := range runs {
		c.sluice.startRun(i)
		if err := c.once(ctx, i); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, &interruption{finished: i, of: runs, besides: besidesTheEnd(err)}
			}
			return nil, errors.Join(append(c.faults, fmt.Errorf("run %d: %w", i+1, err))...)
		}
	}
	results = append(results, c.sluice.result)
	for _, p := range c.peers {
		results = append(results, p.result)
	}
	return results, errors.Join(c.faults...)
}

// startRun sets the title of a run.
func (m *measurement) startRun(i int) {
	m.title = fmt.Sprintf("%s, %s: run %d of %d", scenarioAtRate{m.scenario, m.rate}.title(), m.result.Server, i+1, m.Runs)
}

// once performs one run of every server.
func (c *comparison) once(ctx context.Context, i int) error {
	if c.sluice.scenario.measure != nil {
		figures, err := c.sluice.scenario.measure(ctx, c.sluice)
		return errors.Join(err, c.sluice.result.addFigures(c.sluice.withAims(figures)))
	}
	run, err := c.sluice.measureServer(ctx)
	if err != nil {
		return err
	}
	others, err := c.runPeers(ctx, i)
	if err != nil {
		return err
	}
	c.sluice.startRun(i)
	if run.Floor, err = c.sluice.measureFloor(ctx, gathering); err != nil {
		return err
	}
	if run.Blocking, err = c.sluice.measureFloor(ctx, blocking); err != nil {
		return err
	}
	c.sluice.result.Runs = append(c.sluice.result.Runs, run)
	for i, p := range c.peers {
		others[i].Floor, others[i].Blocking = run.Floor, run.Blocking
		p.result.Runs = append(p.result.Runs, others[i])
	}
	return c.sluice.result.addFigures(c.sluice.withAims(c.sluice.lineFigures(run, others)))
}

// runPeers performs one run of each peer, and drops the peers that fail. It returns an error if ctx
// has ended.
func (c *comparison) runPeers(ctx context.Context, i int) (runs []Run, err error) {
	c.peers = slices.DeleteFunc(c.peers, func(p *measurement) bool {
		if ctx.Err() != nil {
			return false
		}
		p.startRun(i)
		run, failed := p.measurePeer(ctx)
		if failed == nil {
			runs = append(runs, run)
			return false
		}
		if ctx.Err() != nil {
			err = failed
			return false
		}
		c.faults = append(c.faults, fmt.Errorf("%s, run %d: %w", p.peer.Name, i+1, failed))
		return true
	})
	return runs, errors.Join(ctx.Err(), err)
}
