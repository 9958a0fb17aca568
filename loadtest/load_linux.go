package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// settleTime is the wait after the last line of the warm-up and of the load: longer than the server
// needs to persist the changes.
const settleTime = 800 * time.Millisecond

// sentLines are the lines that a sender sent.
type sentLines struct{ warmUp, load packing }

// applyLoad warms a process up, sends the load, and measures the CPU time. The caller fills in how
// many lines were taken.
func (m *measurement) applyLoad(ctx context.Context, to subject) (sent sentLines, taken Taken, err error) {
	s, err := m.newSender(to.udp)
	if err != nil {
		return sent, Taken{}, err
	}
	defer func() { err = errors.Join(err, s.close(), to.alive()) }()
	if sent.warmUp, err = m.warmUp(ctx, s, to); err != nil {
		return sent, Taken{}, err
	}
	before, err := readCPU(to.pid())
	if err != nil {
		return sent, Taken{}, err
	}
	if sent.load, err = m.load(ctx, s, to, &taken); err != nil {
		return sent, Taken{}, err
	}
	q, err := m.settle(ctx, to)
	if err != nil {
		return sent, Taken{}, err
	}
	after, err := readCPU(to.pid())
	if err != nil {
		return sent, Taken{}, err
	}
	taken.User, taken.System = after.since(before)
	taken.Sent, taken.DroppedDatagrams = sent.load.lines(), q.drops
	if offered := taken.OfferedPerSecond(); offered < heldPace*float64(m.rate) {
		m.note("The sender reached only %s lines/s: the machine is too busy, or the rate too high.", grouped(offered))
	}
	return sent, taken, nil
}

// subject is a process that receives a load.
type subject struct {
	*child
	what string // for the progress
	udp  netip.AddrPort
	// warmUpLines and warmUpRate are the size and the rate of the warm-up: every series once,
	// except for the floors.
	warmUpLines, warmUpRate int
	// foreign servers may go on working after the socket is empty.
	foreign bool
}

// warmUp sends the first lines; the loss of any is an error.
func (m *measurement) warmUp(ctx context.Context, s sender, to subject) (packing, error) {
	m.step(to.what + ", warm-up")
	warm, err := s.warmUp(ctx, to.warmUpPlan())
	if err != nil {
		return warm, err
	}
	q, err := m.settle(ctx, to)
	if err == nil && q.drops > 0 {
		err = to.warmUpLoss(q.drops)
	}
	return warm, err
}

// warmUpPlan keeps a foreign server's queue shorter: that server's socket buffer may be small.
func (s subject) warmUpPlan() warmUp {
	if s.foreign {
		return warmUp{s.warmUpLines, s.warmUpRate, foreignLook, keepingUp(s.udp, foreignQueue)}
	}
	return warmUp{s.warmUpLines, s.warmUpRate, warmUpLook, keepingUp(s.udp, warmUpQueue)}
}

func (s subject) warmUpLoss(datagrams int64) error {
	why := "the machine is too busy"
	if s.foreign {
		why += ", or the peer's socket buffer is too small; set it to 4 MiB if the peer has a setting for it"
	}
	return fmt.Errorf("%w: %d datagrams of the slow warm-up were dropped: %s", ErrUnaccounted, datagrams, why)
}

const (
	// foreignQueue bytes and foreignLook more datagrams fit the usual default socket buffer of 208
	// KiB. A datagram takes 2,304 bytes of it.
	foreignQueue = 64 << 10
	foreignLook  = 8
)

// warmUpQueue is the most bytes in the kernel's queue during the warm-up: a fraction of the
// buffer.
const warmUpQueue = 1 << 20

// keepingUp returns a function that waits until fewer than most bytes are queued at the address.
func keepingUp(udp netip.AddrPort, limit int64) func(context.Context) error {
	return func(ctx context.Context) error {
		for deadline := time.Now().Add(quietTimeout); ; {
			q, err := readQueue(udp)
			if err != nil || q.waiting < limit {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%d bytes still wait at %s after %s: the server does not read", q.waiting, udp, quietTimeout)
			}
			if err := rest(ctx, quietPoll); err != nil {
				return err
			}
		}
	}
}

// load sends the measured lines and times them.
func (m *measurement) load(ctx context.Context, s sender, to subject, taken *Taken) (packing, error) {
	m.step(to.what)
	start := time.Now()
	load, err := s.load(ctx, m.lines, m.rate)
	taken.Sending = time.Since(start)
	if err != nil {
		return load, err
	}
	_, err = awaitEmpty(ctx, to.udp)
	taken.Taking = time.Since(start)
	return load, err
}

// settle waits until the socket is empty, and then until the server has processed and persisted the
// lines.
func (m *measurement) settle(ctx context.Context, s subject) (queue, error) {
	if _, err := awaitEmpty(ctx, s.udp); err != nil {
		return queue{}, err
	}
	m.step("waiting until the server is idle")
	if err := rest(ctx, settleTime); err != nil {
		return queue{}, err
	}
	if s.foreign {
		if err := awaitIdle(ctx, s.child); err != nil {
			return queue{}, err
		}
	}
	return readQueue(s.udp)
}

const (
	idleLook    = 500 * time.Millisecond
	idleShare   = 0.1 // of a processor
	idleTimeout = 20 * time.Second
)

// awaitIdle waits until a process is nearly idle, because it may still process lines that it has
// read. The wait ends after idleTimeout at the latest.
func awaitIdle(ctx context.Context, c *child) error {
	for begun := time.Now(); time.Since(begun) < idleTimeout; {
		before, err := readCPU(c.pid())
		if err != nil {
			return err
		}
		if err := rest(ctx, idleLook); err != nil {
			return err
		}
		after, err := readCPU(c.pid())
		if err != nil || float64(after.total-before.total) < idleShare*float64(idleLook) {
			return err
		}
	}
	return nil
}

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

// lineFigures returns the figures of a load of lines that have no column: those with aims, and
// those that only a Sluice server has.
func (m *measurement) lineFigures(run Run, peers []Run) []Figure {
	return slices.Concat(m.costFigures(run, peers), m.memoryFigures(run),
		[]Figure{{Name: "gc_share", Unit: "%", Value: 100 * run.GCShare}})
}

// costFigures compares the cost of a line with the aims at the rate.
func (m *measurement) costFigures(run Run, peers []Run) (figures []Figure) {
	add := func(name, unit string, value float64, aim Aim) {
		figures = append(figures, Figure{Name: name, Unit: unit, Value: value, Aim: aim})
	}
	aims := m.scenario.Aims[m.rate]
	if aims.Floors != 0 {
		add("blocking_floors_per_line", "", run.BlockingRatio(), Aim{Most: aims.Floors})
	}
	if aims.CorePercent != 0 {
		add("core_share", "%", 100*run.Server.Busy(), Aim{Most: aims.CorePercent})
	}
	if len(peers) > 0 {
		add("cheapest_peer_ratio", "", cheapest(peers)/run.Server.CPUPerLine(), Aim{Least: aims.Cheaper})
	}
	return figures
}

// cheapest returns the lowest cost of a line.
func cheapest(runs []Run) float64 {
	costs := make([]float64, len(runs))
	for i, run := range runs {
		costs[i] = run.Server.CPUPerLine()
	}
	return slices.Min(costs)
}

// manySeries is the number of series from which memory per series is meaningful.
const manySeries = 100_000

// memoryFigures returns the memory per series.
func (m *measurement) memoryFigures(run Run) (figures []Figure) {
	add := func(name, unit string, value float64, aim Aim) {
		figures = append(figures, Figure{Name: name, Unit: unit, Value: value, Aim: aim})
	}
	if series := float64(m.scenario.Series()); series >= manySeries {
		anon, file := run.Memory.AnonBytes-run.Idle.AnonBytes, run.Memory.FileBytes-run.Idle.FileBytes
		add("anon_bytes_per_series", "B", float64(anon)/series, Aim{Most: m.scenario.BytesPerSeries})
		add("file_bytes_per_series", "B", float64(file)/series, Aim{})
	}
	return figures
}
