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

// measurement is one call of Run.
type measurement struct {
	Config
	scenario   Scenario
	lines      int64
	processors processors
}

// Measure does all runs. The first that does not add up ends it, with ErrBooks and without a report.
func Measure(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &measurement{Config: cfg}
	m.scenario, _ = scenario(cfg.Scenario)
	m.lines = int64(cfg.Lines)
	if m.lines == 0 {
		m.lines = int64(m.scenario.Lines)
	}
	per := int64(m.scenario.PerDatagram)
	m.lines = (m.lines + per - 1) / per * per
	if m.processors, err = choose(cfg.Pin); err != nil {
		return nil, err
	}
	restore, err := m.processors.pinSender()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	report, err := m.newReport()
	if err != nil {
		return nil, err
	}
	for i := range cfg.Runs {
		run, err := m.run(ctx, fmt.Sprintf("run %d of %d", i+1, cfg.Runs), report)
		if err != nil {
			return nil, fmt.Errorf("%s, run %d: %w", cfg.Scenario, i+1, err)
		}
		report.Runs = append(report.Runs, run)
	}
	return report, nil
}

func (m *measurement) newReport() (*Report, error) {
	r := &Report{
		Scenario: m.scenario.Name, About: m.scenario.About, Series: m.scenario.Series(),
		LinesPerRun: m.lines, LinesPerDatagram: m.scenario.PerDatagram, Sender: "sendmmsg", RatePerSecond: m.Rate,
	}
	if m.Client {
		r.Sender, r.LinesPerDatagram = "go-statsd-client", 0
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	minute, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(minute, 64)
	if err != nil {
		return nil, fmt.Errorf("/proc/loadavg: %w", err)
	}
	r.Machine = Machine{
		CPUs: runtime.NumCPU(), Kernel: unix.ByteSliceToString(kernel.Release[:]), Go: runtime.Version(),
		LoadAverage: load, Pinned: m.processors.pinned(),
	}
	return r, nil
}

func (m *measurement) run(ctx context.Context, title string, report *Report) (run Run, err error) {
	if run, err = m.measureServer(ctx, title+", server"); err != nil {
		return Run{}, err
	}
	run.Floor, report.Machine.SocketBufferBytes, err = m.measureFloor(ctx, title+", floor")
	return run, err
}

// measureServer gives a new server the load and checks the books.
func (m *measurement) measureServer(ctx context.Context, title string) (run Run, err error) {
	s, err := startServer(ctx, m.Binary, m.processors.server)
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
