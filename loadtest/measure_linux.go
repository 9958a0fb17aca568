package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Measure performs all runs of all scenarios. A scenario that fails, for example with
// ErrUnaccounted, is in the error and not in the report. If ctx ends, the report holds the
// scenarios that were finished.
func Measure(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.checkDiskSpace(); err != nil {
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
	var faults []error
	for _, name := range cfg.Scenarios {
		result, err := newMeasurement(cfg, name, cpus, &report.Machine).all(ctx)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		} else {
			report.Scenarios = append(report.Scenarios, result)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return report, errors.Join(faults...)
}

func newMeasurement(cfg Config, name string, cpus processors, machine *Machine) *measurement {
	m := &measurement{Config: cfg, processors: cpus, machine: machine}
	m.scenario, _ = scenario(name)
	m.result = &Result{Scenario: name, About: cfg.about(m.scenario), Short: cfg.Short}
	m.departures = cfg.departures(m.scenario)
	if m.scenario.SendsLines() {
		m.planLoad()
	}
	return m
}

// planLoad sets the size and the rate of the load.
func (m *measurement) planLoad() {
	s := m.scenario
	if m.lines = int64(m.Lines); m.lines == 0 {
		m.lines = int64(s.Lines)
		if m.Short {
			m.lines /= shortLines
		}
	}
	per := int64(s.PerDatagram)
	m.lines = (m.lines + per - 1) / per * per
	if m.Rate == 0 && !m.Search {
		m.Rate = s.Rate
	}
	m.result.Load = &Load{
		Series: s.Series(), LinesPerRun: m.lines, LinesPerDatagram: s.PerDatagram,
		Sender: "sendmmsg", Target: m.Target, RatePerSecond: m.Rate,
	}
	if m.Search {
		m.result.Load.LinesPerRun, m.result.Load.SearchStep = 0, m.searchStep()
	}
	if s.Client {
		m.result.Load.Sender, m.result.Load.LinesPerDatagram = "go-statsd-client", 0
	}
}

// shortLines divides the lines of a short run.
const shortLines = 10

// all performs all runs of the scenario.
func (m *measurement) all(ctx context.Context) (*Result, error) {
	for i := range m.Runs {
		m.title = fmt.Sprintf("%s: run %d of %d", m.scenario.Name, i+1, m.Runs)
		if err := m.once(ctx); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, &interruption{finished: i, of: m.Runs, besides: besidesTheEnd(err)}
			}
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
	}
	return m.result, nil
}

func (m *measurement) once(ctx context.Context) error {
	figures, err := m.figures(ctx)
	return errors.Join(err, m.result.addFigures(m.withAims(figures)))
}

// figures performs one run and returns the figures. It adds the run of a load to the result.
func (m *measurement) figures(ctx context.Context) ([]Figure, error) {
	if m.scenario.measure != nil {
		return m.scenario.measure(ctx, m)
	}
	if m.Search {
		return m.search(ctx)
	}
	run, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	m.result.Runs = append(m.result.Runs, run)
	return m.ourFigures(run), nil
}

// ourFigures returns the figures that only a Sluice server has.
func (m *measurement) ourFigures(run Run) []Figure {
	if m.Target != "" {
		return nil
	}
	return slices.Concat(m.floorFigures(run), m.memoryFigures(run),
		[]Figure{{Name: "gc_share", Unit: "%", Value: 100 * run.GCShare}})
}

// floorFigures compares the cost of a line with the aim of the scenario.
func (m *measurement) floorFigures(run Run) []Figure {
	if m.scenario.Floors == 0 {
		return nil
	}
	return []Figure{{Name: "blocking_floors_per_line", Value: run.BlockingRatio(), Aim: Aim{Most: m.scenario.Floors}}}
}

// manySeries is the number of series from which memory per series is meaningful.
const manySeries = 100_000

// memoryFigures returns the memory per series.
func (m *measurement) memoryFigures(run Run) []Figure {
	series := float64(m.scenario.Series())
	if series < manySeries {
		return nil
	}
	return []Figure{
		{Name: "anon_bytes_per_series", Unit: "B", Value: float64(run.Memory.AnonBytes-run.Idle.AnonBytes) / series, Aim: Aim{Most: m.scenario.BytesPerSeries}},
		{Name: "file_bytes_per_series", Unit: "B", Value: float64(run.Memory.FileBytes-run.Idle.FileBytes) / series},
	}
}

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
