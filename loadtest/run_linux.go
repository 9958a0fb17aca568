package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Measure does all runs of all scenarios. One that fails, as with ErrBooks where its books do not balance, is
// not in the report; the others are, unless ctx has ended.
func Measure(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
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
	var faults []error
	for _, name := range cfg.Scenarios {
		result, err := newMeasurement(cfg, name, cpus, &report.Machine).all(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		report.Scenarios = append(report.Scenarios, result)
	}
	return report, errors.Join(faults...)
}

func newMeasurement(cfg Config, name string, cpus processors, machine *Machine) *measurement {
	m := &measurement{Config: cfg, processors: cpus, machine: machine}
	m.scenario, _ = scenario(name)
	m.result = &Result{Scenario: name, About: m.scenario.About}
	if !m.scenario.SendsLines() {
		return m
	}
	m.lines = int64(cfg.Lines)
	if m.lines == 0 {
		m.lines = int64(m.scenario.Lines)
		if m.Short {
			m.lines /= shortLines
		}
	}
	per := int64(m.scenario.PerDatagram)
	m.lines = (m.lines + per - 1) / per * per
	m.result.Load = &Load{
		Series: m.scenario.Series(), LinesPerRun: m.lines, LinesPerDatagram: m.scenario.PerDatagram,
		Sender: "sendmmsg", RatePerSecond: m.Rate,
	}
	if m.Client {
		m.result.Load.Sender, m.result.Load.LinesPerDatagram = "go-statsd-client", 0
	}
	return m
}

// shortLines is what part of a scenario's lines is sent where little is asked for.
const shortLines = 10

// all does every run.
func (m *measurement) all(ctx context.Context) (*Result, error) {
	for i := range m.Runs {
		m.title = fmt.Sprintf("%s: run %d of %d", m.scenario.Name, i+1, m.Runs)
		if err := m.once(ctx); err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
	}
	return m.result, nil
}

func (m *measurement) once(ctx context.Context) error {
	if m.scenario.measure != nil {
		figures, err := m.scenario.measure(ctx, m)
		return errors.Join(err, m.result.addFigures(figures))
	}
	run, err := m.run(ctx)
	m.result.Runs = append(m.result.Runs, run)
	return err
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

// run gives the server the load, and then the floor.
func (m *measurement) run(ctx context.Context) (run Run, err error) {
	if run, err = m.measureServer(ctx, "server"); err != nil {
		return Run{}, err
	}
	run.Floor, m.machine.SocketBufferBytes, err = m.measureFloor(ctx, "floor")
	return run, err
}

// measureServer gives a new server the load and checks the books.
func (m *measurement) measureServer(ctx context.Context, title string) (run Run, err error) {
	s, err := m.startServer(ctx)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if run.Idle, err = readMemory(s.pid()); err != nil {
		return Run{}, err
	}
	begun := time.Now()
	sent, taken, err := m.pour(ctx, title, s.child, s.udp)
	if err != nil {
		return Run{}, err
	}
	if run.Memory, err = readMemory(s.pid()); err != nil {
		return Run{}, err
	}
	b := books{warmUp: sent.warmUp, load: sent.load, kernelDrops: taken.DroppedDatagrams}
	if err := m.audit(ctx, s, begun, &b); err != nil {
		return Run{}, err
	}
	taken.Taken = b.received - b.warmUp.lines()
	run.Server = taken
	return run, nil
}

// audit fills in the server's side of the books and checks them.
func (m *measurement) audit(ctx context.Context, s *server, begun time.Time, b *books) error {
	entered, err := readLedger(ctx, s.client, s.ops)
	if err != nil {
		return err
	}
	b.received, b.applied, b.rejected, b.serverDrops = entered.received, entered.applied, entered.rejected, entered.drops
	if b.sum, err = total(ctx, s.client, s.http, m.scenario.series.readings()); err != nil {
		return err
	}
	if within := m.scenario.ReadWithin; within > 0 && time.Since(begun) > within {
		return fmt.Errorf("%w: it took %s, but the sums are of a window and have to be read within %s; want fewer --lines or a higher --rate",
			ErrBooks, time.Since(begun).Round(time.Second), within)
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("%w:\n%w", ErrBooks, err)
	}
	return nil
}

func (m *measurement) measureFloor(ctx context.Context, title string) (_ Taken, bufferBytes int, err error) {
	f, err := startFloor(m.Binary, m.processors.server)
	if err != nil {
		return Taken{}, 0, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	sent, taken, err := m.pour(ctx, title, f.child, f.udp)
	if err != nil {
		return Taken{}, 0, err
	}
	counted, err := f.finish()
	if err != nil {
		return Taken{}, 0, err
	}
	b := floorBooks{warmUp: sent.warmUp, load: sent.load, received: counted.Lines, kernelDrops: taken.DroppedDatagrams}
	if err := b.check(); err != nil {
		return Taken{}, 0, fmt.Errorf("%w:\n%w", ErrBooks, err)
	}
	taken.Taken = b.received - b.warmUp.lines()
	return taken, f.bufferBytes, nil
}

func (m *measurement) newSender(to netip.AddrPort) (sender, error) {
	if m.Client {
		return application{scenario: m.scenario, address: to.String()}, nil
	}
	return newFlood(m.scenario, to)
}
