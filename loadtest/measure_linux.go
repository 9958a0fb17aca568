package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Measure performs all runs of all scenarios. A scenario that fails, for example with
// ErrUnaccounted, is in the error and not in the report. If ctx ends, the report holds the
// scenarios that were finished.
func Measure(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := checkDiskSpace(); err != nil {
		return nil, err
	}
	cpus, err := choose(cfg.Pin)
	if err != nil {
		return nil, err
	}
	restore, err := cpus.pinSender()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	report := &Report{}
	if report.Machine, err = readMachine(cpus); err != nil {
		return nil, err
	}
	report.Version = cfg.Version
	peers, skipped := installedPeers(cfg.Peers)
	cfg.Peers = peers
	cfg.tell(skipped)
	var faults []error
	for _, load := range cfg.loads() {
		results, err := newComparison(cfg, load, cpus, &report.Machine).all(ctx)
		report.Scenarios = append(report.Scenarios, results...)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", load.title(), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return report, errors.Join(faults...)
}

// tell writes messages to the progress.
func (c Config) tell(messages []string) {
	for _, text := range messages {
		if c.Progress != nil {
			fmt.Fprintln(c.Progress, text)
		}
	}
}

// newMeasurement returns the measurement of Sluice.
func newMeasurement(cfg Config, load scenarioAtRate, cpus processors, machine *Machine) *measurement {
	m := &measurement{
		Config: cfg, scenario: load.Scenario, rate: load.rate, processors: cpus, machine: machine, title: load.title(),
	}
	m.result = &Result{Scenario: m.scenario.Name, Server: sluiceName, About: cfg.about(m.scenario), Short: cfg.Short}
	m.departures = cfg.departures(m.scenario, m.rate)
	m.prepared = sync.OnceValue(func() *floodLoad { return newFloodLoad(m.scenario) })
	if m.scenario.SendsLines() {
		m.planLoad()
	}
	return m
}

// with returns the measurement of a peer under the same load.
func (m *measurement) with(peer Peer) *measurement {
	other, result, load := *m, *m.result, *m.result.Load
	load.Command = peer.Command
	result.Server, result.Load = peer.Name, &load
	other.peer, other.result = &peer, &result
	return &other
}

// planLoad sets the size of the load.
func (m *measurement) planLoad() {
	s := m.scenario
	if m.lines = int64(m.Lines); m.lines == 0 {
		m.lines = int64(s.lines(m.rate))
		if m.Short {
			m.lines /= shortLines
		}
	}
	per := int64(s.PerDatagram)
	m.lines = (m.lines + per - 1) / per * per
	m.result.Load = &Load{
		Series: s.Series(), LinesPerRun: m.lines, LinesPerDatagram: s.PerDatagram,
		Sender: "sendmmsg", RatePerSecond: m.rate,
	}
	if s.Client {
		m.result.Load.Sender, m.result.Load.LinesPerDatagram = "go-statsd-client", 0
	}
}

// shortLines divides the lines of a short run.
const shortLines = 10

func readMachine(cpus processors) (Machine, error) {
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return Machine{}, os.NewSyscallError("uname", err)
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return Machine{}, err
	}
	minute, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(minute, 64)
	if err != nil {
		return Machine{}, fmt.Errorf("/proc/loadavg: %w", err)
	}
	return Machine{
		CPUs: runtime.NumCPU(), Kernel: unix.ByteSliceToString(kernel.Release[:]), Go: runtime.Version(),
		LoadAverage: load, Pinned: cpus.pinned(),
	}, nil
}
