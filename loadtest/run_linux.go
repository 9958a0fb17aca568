package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// measureServer applies the load to a new server and checks the accounting.
func (m *measurement) measureServer(ctx context.Context) (run Run, err error) {
	s, err := m.startServer(ctx, m.scenario.serverArgs...)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if run.Idle, err = readMemory(s.pid()); err != nil {
		return Run{}, err
	}
	begun := time.Now()
	sent, taken, err := m.applyLoad(ctx, m.subject(s))
	if err != nil {
		return Run{}, err
	}
	if run.Memory, err = readMemory(s.pid()); err != nil {
		return Run{}, err
	}
	b := accounting{warmUp: sent.warmUp, load: sent.load, kernelDrops: taken.DroppedDatagrams}
	if err := m.audit(ctx, s, &b, m.parts()); err != nil {
		return Run{}, err
	}
	if within := m.scenario.ReadWithin; within > 0 && time.Since(begun) > within {
		return Run{}, fmt.Errorf("%w: the run took %s, but the sums are of a window and must be read within %s; set fewer --lines or a higher --rate",
			ErrUnaccounted, time.Since(begun).Round(time.Second), within)
	}
	if taken.Taken = b.received - b.warmUp.lines(); taken.Taken <= 0 {
		return Run{}, nothingTaken("server", taken)
	}
	run.Server = taken
	run.GCShare, err = readGCShare(ctx, s.client, s.ops)
	return run, err
}

// nothingTaken returns the error for a process that took no line.
func nothingTaken(who string, t Taken) error {
	return fmt.Errorf("the %s took none of %d lines; set more --lines", who, t.Sent)
}

// subject returns the Sluice server as the receiver of the load.
func (m *measurement) subject(s *server) subject {
	return subject{child: s.child, what: "server", udp: s.udp, warmUpLines: m.scenario.series.size(),
		warmUpRate: m.warmUpRate()}
}

func (m *measurement) warmUpRate() int {
	if m.scenario.PerDatagram == 1 {
		return singleWarmUpRate
	}
	return warmUpRate
}

func (m *measurement) parts() []part { return m.scenario.series.parts() }

// audit reads the server's counts and the sums of parts, and checks the accounting.
func (m *measurement) audit(ctx context.Context, s *server, b *accounting, parts []part) error {
	m.step("accounting")
	entered, err := readLedger(ctx, s.client, s.ops)
	if err != nil {
		return err
	}
	b.received, b.applied, b.rejected, b.serverDrops = entered.received, entered.applied, entered.rejected, entered.drops
	for _, p := range parts {
		got, err := total(ctx, s.client, s.http, p.paths)
		if err != nil {
			return err
		}
		b.sums = append(b.sums, sum{of: p.name, got: got, want: b.sumOf(p, m.scenario.PerDatagram)})
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("%w:\n%w", ErrUnaccounted, err)
	}
	return nil
}

func (m *measurement) measureFloor(ctx context.Context, way string) (_ Taken, err error) {
	f, err := startFloor(way, m.processors.server)
	if err != nil {
		return Taken{}, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	sent, taken, err := m.applyLoad(ctx, m.floorSubject(f, way))
	if err != nil {
		return Taken{}, err
	}
	counted, err := f.finish()
	if err != nil {
		return Taken{}, err
	}
	b := floorAccounting{warmUp: sent.warmUp, load: sent.load, received: counted.Lines,
		kernelDrops: taken.DroppedDatagrams}
	if err := b.check(); err != nil {
		return Taken{}, fmt.Errorf("%w:\n%w", ErrUnaccounted, err)
	}
	m.machine.SocketBufferBytes = f.bufferBytes
	if taken.Taken = b.received - b.warmUp.lines(); taken.Taken <= 0 {
		return Taken{}, nothingTaken(way+" floor", taken)
	}
	return taken, nil
}

func (m *measurement) floorSubject(f *floorChild, way string) subject {
	return subject{child: f.child, what: way + " floor", udp: f.udp, warmUpLines: floorWarmUp, warmUpRate: m.warmUpRate()}
}

func (m *measurement) newSender(to netip.AddrPort) (sender, error) {
	if m.scenario.Client {
		return application{scenario: m.scenario, series: clientSeries, address: to.String()}, nil
	}
	return newFlood(m.prepared(), m.scenario.Sockets, to)
}

// figureScenarios measure figures of their own. The file of each measure function describes the
// scenario.
var figureScenarios = []Scenario{
	churnScenario,
	pushScenario,
	visibleScenario,
	selectorScenario,
	allPodsScenario,
	restartScenario,
	idleScenario,
	persistenceScenario,
	replicasScenario,
	joinScenario,
	stallScenario,
	largestScenario,
	kedaScenario,
	agentsScenario,
}

// idleScenario measures a server without load.
var idleScenario = Scenario{
	Name: "idle", About: "server without load: memory and CPU of its processes at rest",
	measure: measureIdle,
}

// idleRest is the time between the start and the measurement: a server at rest returns memory after
// some seconds.
const idleRest = 25 * time.Second

func measureIdle(ctx context.Context, m *measurement) (figures []Figure, err error) {
	during := 10 * time.Second
	if m.Short {
		during = time.Second
	}
	s, err := m.startServer(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	m.step("resting")
	if err := rest(ctx, idleRestOf(m)); err != nil {
		return nil, err
	}
	before, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := rest(ctx, during); err != nil {
		return nil, err
	}
	after, err := readCPU(s.pid())
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	memory, err := readMemory(s.pid())
	if err != nil {
		return nil, err
	}
	return []Figure{
		{Name: "resident", Unit: "MiB", Value: mebibytes(memory.ResidentBytes()), Aim: Aim{Most: 60}},
		{Name: "anon", Unit: "MiB", Value: mebibytes(memory.AnonBytes)},
		{Name: "server_cpu", Unit: "cores", Value: (after.total - before.total).Seconds() / took.Seconds()},
	}, nil
}
